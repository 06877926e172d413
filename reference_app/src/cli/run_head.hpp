/// The head of a training log: what a reader must know to compare runs.
#pragma once
#include <string>
#include <vector>

#include "cli/settings.hpp"
#include "cli/training.hpp"

namespace clipbert::cli {

/// Versions, machine, devices, data, batch, steps, precision, optimizer.
[[nodiscard]] std::vector<std::string> run_head(const Settings& settings, const TrainingData& data);

/// Counts of parameters, and the eight groups with the highest rate and the decay of each.
[[nodiscard]] std::vector<std::string> model_head(const model::ClipBert& model, const config::Config& config);

/// Elements of all parameters and buffers.
[[nodiscard]] std::int64_t all_elements(const model::ClipBert& model);

}  // namespace clipbert::cli
