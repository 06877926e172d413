/// What must hold between keys.
#pragma once
#include <string>
#include <vector>

#include "config/table.hpp"

namespace clipbert::config::detail {

/// Adds to `faults` each pair of keys that contradict, both named.
void check_contradictions(const Config& config, Faults& faults);
void check_model(const ModelConfig& model, const std::string& path, Faults& faults);

/// Lines about keys whose value changes nothing.
[[nodiscard]] std::vector<std::string> idle_keys(const Config& config);

/// The level that will be used: opt_level, else by fp16.
[[nodiscard]] std::string level_of(const Config& config);

}  // namespace clipbert::config::detail
