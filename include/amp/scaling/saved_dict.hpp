/// A small saved dictionary, numbers by name, one level of nesting, and its text: JSON that Python's json reads.
#pragma once
#include <amp/core/check.hpp>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace amp {

/// One entry: a number as its text, which loses no bit, or entries of its own. Order is that of writing.
struct saved_entry_of_dict {
  std::string key;
  std::string number{};  ///< empty: a dictionary
  std::vector<saved_entry_of_dict> entries{};
  friend bool operator==(const saved_entry_of_dict&, const saved_entry_of_dict&) = default;
};
using saved_dict = std::vector<saved_entry_of_dict>;

/// The shortest text that reads back as the same number; a floating one always has a point or an exponent.
template <class T>
requires std::integral<T> || std::floating_point<T>
[[nodiscard]] std::string number_text(T value) {
  char text[48];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  std::string out(text, end);
  if constexpr (std::floating_point<T>) {
    if (out.find_first_of(".en") == std::string::npos) out += ".0";  // 'n': inf and nan
  }
  return out;
}
/// Reads a number; an integer may be written with a fraction of zeros.
/// throws  amp::error naming the key
template <class T>
[[nodiscard]] T read_number(const saved_entry_of_dict& e, where at = where::here()) {
  T value{};
  const char *first = e.number.data(), *last = first + e.number.size();
  auto [end, status] = std::from_chars(first, last, value);
  if constexpr (std::integral<T>) {
    if (status == std::errc{} && end != last && *end == '.') ++end;
    while (end != last && end != first && *end == '0') ++end;
  }
  expects(
      status == std::errc{} && end == last,
      [&] { return "saved \"" + e.key + "\" holds \"" + e.number + "\", which is no number of the kind wanted"; }, at);
  return value;
}
[[nodiscard]] inline const saved_entry_of_dict* find(const saved_dict& dict, std::string_view key) noexcept {
  for (const auto& e : dict)
    if (e.key == key) return &e;
  return nullptr;
}

[[nodiscard]] inline std::string to_text(const saved_dict& dict) {
  std::string out = "{";
  for (const auto& e : dict) {
    out += (out.size() > 1 ? ", \"" : "\"") + e.key + "\": ";
    out += e.number.empty() ? to_text(e.entries) : e.number;
  }
  return out + '}';
}

namespace detail {
/// The part of JSON that saved dictionaries use: objects, plain strings as keys, numbers.
class DictReader {
 public:
  DictReader(std::string_view text, where at) : text_(text), at_(at) {}

  [[nodiscard]] saved_dict whole() {
    saved_dict dict = object(0);
    blanks();
    require(pos_ == text_.size(), "the end");
    return dict;
  }

 private:
  saved_dict object(int depth) {
    saved_dict dict;
    take('{');
    require(depth < 4, "a dictionary that is less deep");
    if (peek() == '}') return ++pos_, dict;
    do {
      saved_entry_of_dict e{word()};
      take(':');
      if (peek() == '{') {
        e.entries = object(depth + 1);
      } else {
        e.number = number();
      }
      dict.push_back(std::move(e));
    } while (peek() == ',' && ++pos_ > 0);
    take('}');
    return dict;
  }
  std::string word() {
    take('"');
    const auto end = text_.find_first_of("\"\\", pos_);
    require(end != std::string_view::npos && text_[end] == '"', "a plain name in quotes");
    std::string out(text_.substr(pos_, end - pos_));
    pos_ = end + 1;
    return out;
  }
  std::string number() {
    const auto end = text_.find_first_not_of("+-.0123456789eEinfaNIty", pos_);
    std::string out(text_.substr(pos_, end == std::string_view::npos ? end : end - pos_));
    require(!out.empty(), "a number");
    pos_ += out.size();
    return out;
  }
  void blanks() {
    while (pos_ < text_.size() && std::string_view(" \t\r\n").find(text_[pos_]) != std::string_view::npos) ++pos_;
  }
  [[nodiscard]] char peek() {
    blanks();
    return pos_ < text_.size() ? text_[pos_] : '\0';
  }
  void take(char c) {
    require(peek() == c, std::string("'") + c + '\'');
    ++pos_;
  }
  template <class What>
  void require(bool ok, const What& what) const {
    expects(
        ok, [&] { return "saved text: at character " + std::to_string(pos_) + " there should be " + what; }, at_);
  }

  std::string_view text_;
  where at_;
  std::size_t pos_ = 0;
};
}  // namespace detail

/// Reads what `to_text`, or Python's json over such a dictionary, wrote.
/// throws  amp::error telling the place
[[nodiscard]] inline saved_dict parse_dict(std::string_view text, where at = where::here()) {
  return detail::DictReader(text, at).whole();
}

}  // namespace amp
