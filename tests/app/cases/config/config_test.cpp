#include "config/config.hpp"

#include <doctest/doctest.h>

#include "app/cases/manifest.hpp"
#include "config/errors.hpp"
#include "config/load.hpp"

using clipbert::config::load;

namespace {

void check_refusal(const test_support::Case& one, const std::string& message) {
  test_support::check_message(one, message);
  const auto& expected = one.expected();
  for (const auto& line : expected.at("line_any"))
    if (test_support::mentions(message, line.dump(), one.file)) return;
  if (expected.at("bad_paths").empty()) CHECK(expected.at("line_any").empty());
  for (const auto& path : expected.at("bad_paths"))
    CHECK(test_support::mentions(message, path.get<std::string>(), one.file));
  for (const auto& [path, nearest] : expected.at("suggest").items())
    CHECK(test_support::mentions(message, nearest.get<std::string>(), one.file));
}

}  // namespace

TEST_SUITE("cases/config") {
  TEST_CASE("B96 each shared config is accepted or refused as its case says") {
    for (const auto& one : test_support::cases_of("config")) {
      CAPTURE(one.name);
      try {
        const auto loaded = load(one.file);
        CHECK(one.allows(loaded.warnings.empty() ? "ok" : "warn"));
        std::string warnings;
        for (const auto& line : loaded.warnings) warnings += line + "; ";
        if (!loaded.warnings.empty()) test_support::check_message(one, warnings);
        const auto effective = clipbert::config::to_json(clipbert::config::effective(loaded.config).config);
        for (const auto& [key, value] : one.expected().at("effective").items())
          CHECK_MESSAGE(nlohmann::json(effective.at(key)) == value, key);
      } catch (const clipbert::usage_error& e) {
        CAPTURE(e.what());
        CHECK(one.allows("error"));
        check_refusal(one, e.what());
      }
    }
  }
}
