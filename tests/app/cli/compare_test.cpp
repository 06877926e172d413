// Comparisons that go wrong: levels that are none, losses that are no number.
#include <doctest/doctest.h>

#include <array>

#include "tiny.hpp"

using test_support::Folder;
using test_support::has;
using test_support::last_line;
using test_support::one_line;
using test_support::tiny_folder;

TEST_SUITE("cli/compare") {
  TEST_CASE("levels that are unknown, missing or given twice are refused before any process starts") {
    const Folder& folder = tiny_folder();
    for (const auto& [levels, word] :
         std::vector<std::array<std::string, 2>>{{"O7", "O7"}, {",", "empty"}, {"O0,o0", "O0 twice"}}) {
      CAPTURE(levels);
      const auto outcome = folder.run({"compare", "--config", "c.json", "--levels", levels, "--steps", "1"});
      CHECK(outcome.code == 2);
      CHECK(one_line(outcome.err));
      CHECK(has(outcome.err, word));
    }
    CHECK(folder.run({"compare", "--config", "c.json", "--steps", "0"}).code == 2);
  }

  TEST_CASE("a loss that is no number is shown in words, and a level that diverges ends with code 4") {
    const Folder& folder = tiny_folder();
    const std::vector<std::string> words{"compare", "--config", "c.json",          "--levels", "O0",
                                         "--steps", "6",        "--learning_rate", "1e38",     "--cnn_learning_rate",
                                         "1e38"};
    const auto table = folder.run(words);
    CHECK_MESSAGE(table.code == 0, table.err);
    CHECK(has(table.out, "not finite"));
    auto strict = words;
    strict.insert(strict.end(), {"--max_consecutive_skips", "2"});
    const auto diverged = folder.run(strict);
    CHECK(diverged.code == 4);
    CHECK(has(diverged.err, "diverged"));
    CHECK(has(last_line(diverged.err), "process of O0"));
  }
}
