#include "config/json.hpp"

#include <cstddef>
#include <fstream>
#include <iterator>
#include <set>
#include <vector>

#include "config/errors.hpp"

namespace clipbert::config {
namespace {

/// Hands out the characters of a text and tells through `position` how far the parser has read.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char** position) : at_(at), position_(position) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    *position_ = ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    const auto before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) { return a.at_ == b.at_; }

 private:
  const char* at_;
  const char** position_;
};

std::size_t line_of(std::string_view text, std::size_t offset) {
  std::size_t line = 1;
  for (const char c : text.substr(0, offset)) line += c == '\n';
  return line;
}

/// Why the parser stopped at `offset` (the last character that it read), in words for the usual mistakes.
std::string explain(std::string_view text, std::size_t offset, const std::string& parser_words) {
  const auto last = text.substr(0, offset).find_last_not_of(" \t\r\n", offset);
  if (offset >= text.size() && parser_words.find("unexpected end of input") != std::string::npos)
    return "the text ends too early";
  for (std::size_t at = offset; at > 0 && at + 3 > offset; --at)
    if (at <= text.size() && (text[at - 1] == '/' || text[at - 1] == '#')) return "comments are not JSON; remove it";
  if (last != std::string_view::npos && (text[last] == '}' || text[last] == ']') && last > 0) {
    const auto before = text.find_last_not_of(" \t\r\n", last - 1);
    if (before != std::string_view::npos && text[before] == ',')
      return std::string("a comma before '") + text[last] + "' is not JSON; remove it";
  }
  const auto dash = parser_words.find("syntax error");
  return dash == std::string::npos ? parser_words.substr(parser_words.find("] ") + 2) : parser_words.substr(dash);
}

/// Builds the tree, checks for repeated keys and notes the lines.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(std::string_view text, const char* const* position, const std::string& name)
      : text_(text), position_(position), name_(name), counted_(text.data()) {}

  bool null() override { return value(nullptr); }
  bool boolean(bool v) override { return value(v); }
  bool number_integer(number_integer_t v) override { return value(v); }
  bool number_unsigned(number_unsigned_t v) override { return value(v); }
  bool number_float(number_float_t v, const string_t&) override { return value(v); }
  bool string(string_t& v) override { return value(std::move(v)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& k) override {
    auto& top = open_.back();
    const auto path = top.path.empty() ? k : top.path + "." + k;
    if (!top.keys.insert(k).second)
      repeated_ += (repeated_.empty() ? ":" : "; line ") + std::to_string(line()) + ": key " + path +
                   " stands twice, first in line " + std::to_string(document_.lines[path]) + "; keep one";
    else
      document_.lines[path] = line();
    key_ = k;
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& e) override {
    const auto offset = static_cast<std::size_t>(*position_ - text_.data());
    throw usage_error(name_ + ":" + std::to_string(line_of(text_, offset > 0 ? offset - 1 : 0)) + ": " +
                      explain(text_, offset, e.what()));
  }

  Document take() && {
    if (!repeated_.empty()) throw usage_error(name_ + repeated_);
    return std::move(document_);
  }

 private:
  struct Level {
    Json* node;
    std::string path;
    std::set<std::string> keys;
  };

  std::size_t line() {
    for (; counted_ < *position_; ++counted_) line_ += *counted_ == '\n';
    return line_;
  }

  std::string path_of_next() const {
    if (open_.empty()) return {};
    const auto& top = open_.back();
    if (top.node->is_array()) return top.path + "[" + std::to_string(top.node->size()) + "]";
    return top.path.empty() ? key_ : top.path + "." + key_;
  }

  Json* put(Json v) {
    if (open_.empty()) {
      document_.root = std::move(v);
      return &document_.root;
    }
    auto& node = *open_.back().node;
    if (node.is_array()) {
      node.push_back(std::move(v));
      return &node.back();
    }
    return &(node[key_] = std::move(v));
  }

  bool value(Json v) {
    put(std::move(v));
    return true;
  }

  bool open(Json v) {
    if (open_.size() >= 64)
      throw usage_error(name_ + ":" + std::to_string(line()) + ": nested more than 64 deep; this is no config");
    auto path = path_of_next();
    auto* node = put(std::move(v));
    open_.push_back({node, std::move(path), {}});
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view text_;
  const char* const* position_;
  std::string name_;
  const char* counted_;
  std::size_t line_ = 1;
  std::vector<Level> open_;
  std::string key_;
  std::string repeated_;
  Document document_;
};

}  // namespace

Document parse_json(std::string_view text, const std::string& name) {
  const char* position = text.data();
  Builder builder(text, &position, name);
  Json::sax_parse(CountingIterator(text.data(), &position), CountingIterator(text.data() + text.size(), &position),
                  &builder);
  return std::move(builder).take();
}

Document read_json(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::error_code ignored;
  if (!in || std::filesystem::is_directory(file, ignored))
    throw usage_error(file.string() + ": cannot be read; give the path of a JSON file");
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  return parse_json(text, file.string());
}

}  // namespace clipbert::config
