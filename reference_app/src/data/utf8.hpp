/// UTF-8 without a library: check, decode, encode.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "config/errors.hpp"

namespace clipbert::data {

/// Decodes the character at `at` and moves behind it; -1 for a byte that starts no valid character (moves by one).
[[nodiscard]] inline std::int32_t next_character(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte(at);
  if (lead < 0x80) return ++at, lead;
  const int length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  static constexpr std::int32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (lead < 0xC2 || lead > 0xF4 || at + static_cast<std::size_t>(length) > text.size()) return ++at, -1;
  std::int32_t code = lead & (0x7F >> length);
  for (int i = 1; i < length; ++i) {
    const std::uint8_t more = byte(at + static_cast<std::size_t>(i));
    if ((more & 0xC0) != 0x80) return ++at, -1;
    code = code << 6 | (more & 0x3F);
  }
  if (code < least[length] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return ++at, -1;
  at += static_cast<std::size_t>(length);
  return code;
}

[[nodiscard]] inline bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    if (next_character(text, at) < 0) return false;
  }
  return true;
}

inline void append_character(std::string& text, std::int32_t code) {
  const auto push = [&](std::int32_t value) { text.push_back(static_cast<char>(value)); };
  if (code < 0x80) return push(code);
  if (code < 0x800) return push(0xC0 | code >> 6), push(0x80 | (code & 0x3F));
  if (code < 0x10000) return push(0xE0 | code >> 12), push(0x80 | (code >> 6 & 0x3F)), push(0x80 | (code & 0x3F));
  push(0xF0 | code >> 18), push(0x80 | (code >> 12 & 0x3F)), push(0x80 | (code >> 6 & 0x3F)),
      push(0x80 | (code & 0x3F));
}

inline constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

/// A text file as it is.
/// throws  content_error if it cannot be read
[[nodiscard]] inline std::string read_text(const std::filesystem::path& file) {
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (status.type() == std::filesystem::file_type::not_found) throw content_error(file.string() + ": no such file");
  if (!error && !std::filesystem::is_regular_file(status)) {
    throw content_error(file.string() + ": no regular file (a folder or a pipe); give a file");
  }
  std::ifstream in(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (error || (!in.good() && !in.eof())) {
    throw content_error(file.string() + ": cannot be read; check its permissions");
  }
  return text;
}

/// Takes the next line off `rest`: LF or CR LF ends it, the last one needs neither.
[[nodiscard]] inline std::string_view take_line(std::string_view& rest) {
  const std::size_t end = rest.find('\n');
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  if (end != std::string_view::npos && line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace clipbert::data
