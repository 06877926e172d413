/// Strict JSON (RFC 8259) that remembers where each key stands.
#pragma once
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace clipbert::config {

using Json = nlohmann::ordered_json;

/// A parsed text. `lines`: dotted path (`a.b`, `list[0].key`) of each key to its line, from 1.
struct Document {
  Json root;
  std::map<std::string, std::size_t, std::less<>> lines;
};

/// Parses `text`; a byte order mark is accepted, comments, trailing commas and a key twice in one object are not.
/// throws  usage_error with `name` and the line
[[nodiscard]] Document parse_json(std::string_view text, const std::string& name);

/// Reads and parses a file.
/// throws  usage_error if it cannot be read or is not strict JSON
[[nodiscard]] Document read_json(const std::filesystem::path& file);

}  // namespace clipbert::config
