/// From a loaded configuration to what a command works with: paths checked, dependent values filled in, data opened.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cli/devices.hpp"
#include "config/config.hpp"
#include "config/load.hpp"
#include "data/captions.hpp"
#include "data/clips.hpp"
#include "data/dataset.hpp"
#include "data/tokenizer.hpp"

namespace clipbert::cli {

/// Effective settings, and what is worth saying about them.
struct Settings {
  config::Config config;
  config::ModelConfig model;
  Devices devices;
  std::vector<std::string> warnings, notes;
};

/// Checks the paths (`only`: those keys), fills in what depends on the machine, refuses what this program cannot do,
/// and sets LibTorch's number of threads. throws  usage_error
[[nodiscard]] Settings settle(config::Loaded loaded, std::span<const std::string> only = {});

/// The vocabulary of the run.
/// folder  holds vocab.txt
/// throws  usage_error without a folder, content_error if the model has fewer tokens than the file
[[nodiscard]] std::shared_ptr<const data::Tokenizer> open_tokenizer(const Settings& settings,
                                                                    const std::string& folder);

/// How frames are taken from a video while training.
[[nodiscard]] data::ClipOptions training_clips(const config::Config& config);
/// The same for scoring: nothing random, inference_n_clips.
[[nodiscard]] data::ClipOptions scoring_clips(const config::Config& config);

/// Frames that cannot fit the machine are refused before they are asked for.
/// what    takes the memory: "the frames of a batch"
/// throws  usage_error with the sizes that make it up
void expect_memory(const data::ClipOptions& clips, std::int64_t videos, const std::string& what);

/// Threads that decode for scoring: what n_workers asks for, but no more than the machine has cores.
[[nodiscard]] int decode_threads(const config::Config& config);
/// Threads that make batches while the model trains: the cores that computing leaves, at least one. A thread that takes
/// a core from a parallel kernel makes its others wait at every barrier, by spinning.
[[nodiscard]] int loader_threads(const config::Config& config);

}  // namespace clipbert::cli
