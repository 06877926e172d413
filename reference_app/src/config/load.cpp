#include "config/load.hpp"

#include <algorithm>

#include "config/check.hpp"
#include "config/codec.hpp"
#include "config/errors.hpp"
#include "config/table.hpp"

namespace clipbert::config {
namespace {

struct Flag {
  std::string name;  ///< with underscores
  std::vector<std::string> words;
};

bool is_flag(const std::string& word) { return word.size() > 2 && word.starts_with("--"); }

std::vector<Flag> split_flags(std::span<const std::string> words, Faults& faults) {
  std::vector<Flag> flags;
  for (const auto& word : words) {
    if (is_flag(word)) {
      const auto equals = word.find('=');
      auto name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
      std::ranges::replace(name, '-', '_');
      flags.push_back({std::move(name), {}});
      if (equals != std::string::npos) flags.back().words.push_back(word.substr(equals + 1));
    } else if (flags.empty()) {
      faults.add("'" + word + "' stands before any flag; write --KEY VALUE");
    } else {
      flags.back().words.push_back(word);
    }
  }
  return flags;
}

/// One word as the number or truth value that it spells, else as text.
Json scalar(const std::string& word) {
  const auto json = Json::parse(word, nullptr, false);
  return json.is_number() || json.is_boolean() ? json : Json(word);
}

/// The value that the words spell for a key of this shape; throws usage_error for JSON that is none.
Json value_of(const Flag& flag, Shape shape) {
  const auto name = "--" + flag.name;
  if (shape == Shape::boolean && flag.words.empty()) return true;
  if (flag.words.empty()) throw usage_error(name + " needs a value");
  const auto& first = flag.words.front();
  if (shape == Shape::list) {
    if (flag.words.size() == 1 && first.starts_with('[')) return parse_json(first, name).root;
    auto list = Json::array();
    for (const auto& word : flag.words) list.push_back(scalar(word));
    return list;
  }
  if (flag.words.size() > 1) throw usage_error(name + " takes one value, then came '" + flag.words[1] + "'");
  if (shape == Shape::json || (shape == Shape::text_or_json && first.starts_with('{')))
    return parse_json(first, name).root;
  if (shape == Shape::boolean && (first == "True" || first == "False")) return first == "True";
  return shape == Shape::text || shape == Shape::text_or_json ? Json(first) : scalar(first);
}

void apply_flag(const Flag& flag, Config& config, Faults& faults) {
  const auto* key = find_key<Config>(flag.name);
  if (key == nullptr) {
    faults.add("--" + flag.name, "is not a known flag; " + suggestion<Config>(flag.name));
    return;
  }
  if (flag.words.size() == 1 && flag.words[0] == "null") {
    key->reset(config, Config{});
    config.given.erase(flag.name);
    return;
  }
  try {
    const auto before = faults.all().size();
    key->read(value_of(flag, key->shape), config, flag.name, faults);
    if (faults.all().size() == before) config.given[flag.name] = Source::flag;
  } catch (const usage_error& e) {
    faults.add(e.what());
  }
}

Loaded merge(const Document& document, const std::string& name, const std::string& folder,
             std::span<const std::string> words) {
  Loaded loaded;
  auto& config = loaded.config;
  config.folder = folder;
  Faults faults(&document.lines);
  read_object(document.root, config, {}, faults);
  if (document.root.is_object())
    for (const auto& [key, value] : document.root.items())
      if (!value.is_null() && find_key<Config>(key) != nullptr) config.given[key] = Source::file;

  Faults flag_faults;
  for (const auto& flag : split_flags(words, flag_faults)) apply_flag(flag, config, flag_faults);
  const bool file_is_sound = faults.all().empty();
  for (const auto& fault : flag_faults.all()) faults.add(fault);
  if (faults.all().empty()) detail::check_contradictions(config, faults);
  const bool flags_are_sound = flag_faults.all().empty();
  const bool contradiction = file_is_sound && flags_are_sound && !words.empty() && name != "flags";
  faults.raise(contradiction ? name + " with flags" : file_is_sound && !flags_are_sound ? "flags" : name);
  for (const auto& line : detail::idle_keys(config)) loaded.warnings.push_back(name + ": " + line);
  return loaded;
}

}  // namespace

Loaded load(const std::optional<std::filesystem::path>& file, std::span<const std::string> flags) {
  if (!file) return parse("{}", "flags", {}, flags);
  const auto folder = std::filesystem::absolute(*file).parent_path().string();
  return merge(read_json(*file), file->string(), folder, flags);
}

Loaded parse(std::string_view text, const std::string& name, const std::string& folder,
             std::span<const std::string> flags) {
  return merge(parse_json(text, name), name, folder, flags);
}

Loaded from_json(const Json& json, const std::string& name) { return merge({json, {}}, name, {}, {}); }

Json to_json(const Config& config) { return write_object(config); }
Json to_json(const ModelConfig& model) { return write_object(model); }

}  // namespace clipbert::config
