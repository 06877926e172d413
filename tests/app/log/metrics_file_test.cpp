#include "log/metrics_file.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/errors.hpp"
#include "support/temp_folder.hpp"

namespace fs = std::filesystem;
using namespace clipbert::log;
using Folder = test_support::TempFolder;

namespace {

std::vector<nlohmann::json> lines(const fs::path& file) {
  std::vector<nlohmann::json> all;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) all.push_back(nlohmann::json::parse(line));
  return all;
}

}  // namespace

TEST_SUITE("log/metrics_file") {
  TEST_CASE("a step is one JSON line with every field, what is no number is null") {
    const Folder folder;
    const auto file = folder.path() / "metrics.jsonl";
    MetricsFile metrics(file);
    metrics.step({.step = 1,
                  .epoch = 0.5,
                  .loss = 0.1,
                  .loss_smoothed = 0.2,
                  .loss_scale = 8,
                  .skipped = true,
                  .grad_norm = std::numeric_limits<double>::infinity(),
                  .lr_transformer = 5e-5,
                  .lr_cnn = 1e-3,
                  .examples_per_second = 10,
                  .data_wait_ms = 1,
                  .step_ms = 100,
                  .mem_bytes = 1 << 20});
    const auto all = lines(file);
    REQUIRE(all.size() == 1);
    CHECK(all[0] ==
          nlohmann::json::parse(R"({"step": 1, "epoch": 0.5, "loss": 0.1, "loss_smoothed": 0.2, "loss_scale": 8.0,
        "skipped": true, "grad_norm": null, "lr_transformer": 5e-5, "lr_cnn": 1e-3, "examples_per_second": 10.0,
        "data_wait_ms": 1.0, "step_ms": 100.0, "mem_bytes": 1048576})"));
  }

  TEST_CASE("a resumed run cuts back to its step, half-written lines too, and a fresh one starts anew") {
    const Folder folder;
    const auto file = folder.path() / "metrics.jsonl";
    const auto steps = [&] {
      std::vector<int> found;
      for (const auto& line : lines(file)) found.push_back(line.at("step"));
      return found;
    };
    {
      MetricsFile metrics(file);
      for (int step = 1; step <= 5; ++step) metrics.step({.step = step});
    }
    std::ofstream(file, std::ios::app) << R"({"step": 6, "lo)";
    MetricsFile(file, 3).step({.step = 4});
    CHECK(steps() == std::vector{1, 2, 3, 4});
    std::ofstream(file, std::ios::app) << R"({"step": 5})";  // whole but without its end of line: not known to be whole
    MetricsFile(file, 9).step({.step = 10});
    CHECK(steps() == std::vector{1, 2, 3, 4, 10});
    MetricsFile(file).step({.step = 1});
    CHECK(steps() == std::vector{1});
    CHECK_THROWS_AS(MetricsFile(folder.path() / "no" / "file"), clipbert::content_error);
  }
}
