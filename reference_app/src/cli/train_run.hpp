/// One run of the train command.
#pragma once
#include "config/load.hpp"

namespace clipbert::cli {

/// Trains, validates, saves and logs, as the settings say. -> the exit code
/// throws  usage_error, content_error, diverged_error
[[nodiscard]] int run_training(config::Loaded loaded);

/// Checks the settings and all that they name, and prints what a run would do and need. Nothing is written, no video is
/// opened.
[[nodiscard]] int run_dry(config::Loaded loaded);

}  // namespace clipbert::cli
