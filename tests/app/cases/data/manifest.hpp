/// The cases of one kind from manifest.json, checked for damage and renamed where asked.
#pragma once
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "support/shared_data.hpp"

namespace cases {

using nlohmann::json;

struct Case {
  std::filesystem::path folder, file;  ///< of the manifest; the input, renamed where the case says so
  const json* entry = nullptr;
  const json& expected() const { return entry->at("expected"); }
  bool allows(const std::string& outcome) const {
    const json& allowed = entry->at("outcome");
    return allowed.is_string() ? allowed == outcome
                               : std::find(allowed.begin(), allowed.end(), outcome) != allowed.end();
  }
};

inline std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// What a warning or error must say: the file's name, each required word outside the path, in one line.
inline void check_message(const Case& one, const std::string& message) {
  CAPTURE(message);
  CHECK(message.find(one.file.filename().string()) != std::string::npos);
  CHECK(message.find('\n') == std::string::npos);
  std::string words = message;
  for (std::size_t at = 0; (at = words.find(one.file.string())) != std::string::npos;)
    words.erase(at, one.file.string().size());
  for (const json& word : one.entry->at("message_has")) {
    CHECK(lower(words).find(lower(word.get<std::string>())) != std::string::npos);
  }
}

/// The outcome of a run is one of those allowed, and its words are right.
inline void check_outcome(const Case& one, const std::string& outcome, const std::string& message) {
  CAPTURE(outcome);
  CAPTURE(message);
  CHECK(one.allows(outcome));
  if (outcome != "ok") check_message(one, message);
}

/// Runs `check` on each case of `kind`; false where there is no manifest.
inline bool for_each(const std::string& kind, const std::function<void(const Case&)>& check) {
  const auto folder = test_support::cases_folder();
  if (!test_support::have(folder / "manifest.json")) return false;
  const json manifest = json::parse(std::ifstream(folder / "manifest.json"));
  const auto copies =
      std::filesystem::temp_directory_path() / ("clipbert_cases_" + kind + "_" + std::to_string(::getpid()));
  for (const json& entry : manifest.at("cases")) {
    if (entry.at("kind") != kind) continue;
    Case one{folder, folder / entry.at("file").get<std::string>(), &entry};
    INFO("case ", one.file.string());
    std::error_code code;
    const bool sound = std::filesystem::file_size(one.file, code) == entry.at("bytes").get<std::uintmax_t>() && !code;
    CHECK_MESSAGE(sound, "damaged test data");
    if (!sound) continue;
    if (entry.contains("rename_to") && entry["rename_to"].is_string()) {
      const std::filesystem::path original = one.file;
      std::filesystem::create_directories(copies);
      one.file = copies / entry["rename_to"].get<std::string>();
      std::filesystem::copy_file(original, one.file, std::filesystem::copy_options::overwrite_existing);
    }
    check(one);
  }
  std::filesystem::remove_all(copies);
  return true;
}

}  // namespace cases
