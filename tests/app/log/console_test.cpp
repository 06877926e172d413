#include "log/console.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "support/temp_folder.hpp"

using namespace clipbert::log;

TEST_SUITE("log/console") {
  TEST_CASE("the text log writes to stream and file with the time, steps and scalars to the file only") {
    const test_support::TempFolder folder;
    const auto file = folder / "log.txt";
    std::ostringstream stream;
    {
      TextLog log(file, stream, 2);
      log.info("hello");
      log.warn("careful");
      for (int step = 1; step <= 3; ++step) log.step({.step = step, .loss_smoothed = 0.25});
      log.scalar("valid/acc", 3, 0.5);
    }
    std::ifstream in(file);
    const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    CHECK(std::ranges::count(text, '\n') == 4);
    CHECK(text.find(" hello\n") == 19);  // behind YYYY-MM-DD HH:MM:SS
    CHECK(text.find(" warning: careful\n") != std::string::npos);
    CHECK(text.find(" step 2 epoch 0 loss 0.25 ") != std::string::npos);
    CHECK(text.find(" valid/acc 0.5 at step 3\n") != std::string::npos);
    CHECK(std::ranges::count(stream.str(), '\n') == 2);
  }

  TEST_CASE("without a terminal progress is a line every few per cent, the last included") {
    for (const auto& [total, percent, expected] :
         {std::tuple{200, 5, 20}, {7, 50, 2}, {10, 3, 10}, {1, 5, 1}, {100, 30, 4}}) {
      std::ostringstream stream;
      {
        Progress progress(stream, total, false, percent);
        for (int step = 1; step <= total; ++step) progress.step({.step = step});
      }
      const auto text = stream.str();
      CAPTURE(text);
      CHECK(std::ranges::count(text, '\n') == expected);
      CHECK(text.find("100% step " + std::to_string(total) + "/" + std::to_string(total)) != std::string::npos);
      CHECK(text.find('\r') == std::string::npos);
    }
  }

  TEST_CASE("a resumed run does not repeat the part that is done") {
    std::ostringstream stream;
    Progress progress(stream, 100, false, 10);
    for (int step = 51; step <= 100; ++step) progress.step({.step = step});
    CHECK(std::ranges::count(stream.str(), '\n') == 5);
    CHECK(stream.str().starts_with("60% step 60/100"));
  }

  TEST_CASE("on a terminal progress rewrites one line and ends it") {
    std::ostringstream stream;
    {
      Progress progress(stream, 50, true);
      for (int step = 1; step <= 50; ++step) progress.step({.step = step, .loss_scale = 2, .skipped = step == 50});
    }
    const auto text = stream.str();
    CHECK(text.starts_with("\r"));
    CHECK(std::ranges::count(text, '\n') == 1);
    CHECK(text.ends_with("scale 2 skipped left 0:00\n"));
  }
}
