/// The eval command's work, which `train --do_inference 1` asks for as well, and the settings of a finished run.
#pragma once
#include <string>

#include "cli/frame.hpp"
#include "cli/retrieve.hpp"
#include "config/load.hpp"

namespace clipbert::cli {

/// The settings of the run in `output_dir`, read from its log folder, with flags on top. The run's own vocabulary and
/// model settings are taken from there too, so a run folder can be moved.
/// throws  usage_error if the folder holds no run
[[nodiscard]] config::Loaded run_settings(const std::string& output_dir, const Words& flags);

/// Scores inference_txt_db against inference_img_db with a run's weights, writes the result files, prints the metrics.
/// flags  `--KEY VALUE...`: output_dir, inference_* and what else shall differ from the run's settings
int evaluate_run(const Words& flags, bool json);

}  // namespace clipbert::cli
