// The tables as text for people.
#include <algorithm>

#include "config/codec.hpp"
#include "config/load.hpp"
#include "config/table.hpp"

namespace clipbert::config {
namespace {

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

}  // namespace

std::string listing(const Config& config) {
  std::string text;
  for (const auto& key : keys<Config>()) {
    const std::string name(key.name);
    const auto given = config.given.find(name);
    const auto value = key.write(config);
    text += padded(name, 28) + (value.is_null() ? "unset: " + std::string(key.fallback)
                                                : value.dump(-1, ' ', false, Json::error_handler_t::replace));
    if (given != config.given.end()) text += given->second == Source::flag ? "  (flag)" : "  (file)";
    text += '\n';
  }
  return text;
}

std::string help_text() {
  const Config defaults;
  std::string text, section;
  for (const auto& key : keys<Config>()) {
    if (key.section != section) {
      section = key.section;
      text += "\n" + section + ":\n";
    }
    const auto fallback = key.fallback.empty() ? key.write(defaults).dump() : std::string(key.fallback);
    text += "  " + padded("--" + std::string(key.name), 30) + std::string(key.help) + "; " + key.type() + " [" +
            fallback + "]\n";
  }
  const auto part = [&](const std::string& title, const auto& rows, const auto& values) {
    text += "\ninside " + title + ":\n";
    for (const auto& key : rows)
      text += "  " + padded(std::string(key.name), 34) + std::string(key.help) + "; " + key.type() + " [" +
              key.write(values).dump() + "]\n";
  };
  part("cnn", keys<CnnConfig>(), CnnConfig{});
  part("model_config", keys<ModelConfig>(), ModelConfig{});
  return text;
}

}  // namespace clipbert::config
