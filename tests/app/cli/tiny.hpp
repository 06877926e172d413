/// The smallest data set and model on which every command runs.
#pragma once
#include <nlohmann/json.hpp>

#include "program.hpp"

namespace test_support {

/// Words of a training run of `c.json` in a tiny_folder(); one line of metrics, 0.1 s, a step.
[[nodiscard]] std::vector<std::string> train_words(const std::string& out, int steps,
                                                   const std::vector<std::string>& more = {});

/// A folder with a few demo videos in `data` and a config `c.json`, made once for all cases of a program.
[[nodiscard]] const Folder& tiny_folder();

/// The same with a run of 4 steps in `run`, a state and weights every 2 steps.
[[nodiscard]] const Folder& tiny_run();

/// The lines of a run's metrics.
[[nodiscard]] std::vector<nlohmann::json> metrics_of(const std::filesystem::path& run);

/// Waits until a run has done `steps` steps, or has ended.
void wait_for_steps(Program& program, const std::filesystem::path& run, std::size_t steps);

/// The last line of a text, without its end.
[[nodiscard]] std::string last_line(const std::string& text);

}  // namespace test_support
