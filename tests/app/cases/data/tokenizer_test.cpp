#include "data/tokenizer.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "app/cases/manifest.hpp"
#include "config/errors.hpp"

namespace data = clipbert::data;
using nlohmann::json;
using test_support::Case;

TEST_SUITE("cases/vocab") {
  TEST_CASE("each vocabulary of the manifest gives the ids that it says") {
    for (const Case& one : test_support::cases_of("vocab")) {
      CAPTURE(one.name);
      try {
        const data::Vocabulary vocabulary(one.file);
        const auto& warnings = vocabulary.warnings();
        test_support::check_outcome(one, warnings.empty() ? "ok" : "warn", warnings.empty() ? "" : warnings.front());
        CHECK(vocabulary.size() == one.expected()["size"].get<std::int64_t>());
        for (const auto& [token, id] : one.expected()["ids"].items()) {
          CAPTURE(token);
          CHECK(vocabulary.id(token) == id.get<std::int64_t>());
        }
      } catch (const clipbert::content_error& error) {
        test_support::check_outcome(one, "error", error.what());
      }
    }
  }
}

TEST_SUITE("cases/tokenizer") {
  TEST_CASE("B90 each text of the manifest's tokenizer cases becomes the reference's ids") {
    for (const Case& one : test_support::cases_of("tokenizer")) {
      CAPTURE(one.name);
      const auto vocabulary = test_support::cases_folder() / one.expected()["vocab"].get<std::string>();
      const data::Tokenizer tokenizer{data::Vocabulary(vocabulary)};
      std::ifstream in(one.file);
      std::string line;
      std::int64_t count = 0;
      while (std::getline(in, line)) {
        if (line.empty()) continue;
        const json entry = json::parse(line);
        CAPTURE(line);
        CHECK(tokenizer.encode(entry["text"].get<std::string>()) == entry["ids"].get<std::vector<std::int64_t>>());
        ++count;
      }
      CHECK(count == one.expected()["cases"].get<std::int64_t>());
    }
  }
}
