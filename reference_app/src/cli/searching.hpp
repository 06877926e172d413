/// What search and index have in common: which model, which videos, pictures of them.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cli/retrieve.hpp"

namespace CLI {
class App;
}

namespace clipbert::cli {

/// Flags that name a trained model.
struct ModelFlags {
  std::string output_dir, checkpoint, config, step = "best";
  std::int64_t n_clips = 0, threads = -1, workers = -1;

  void add_to(CLI::App& app);
};

/// Opens the model of a run, or of weights and a config.
/// throws  usage_error with `command` if the flags name neither or both
[[nodiscard]] TrainedModel open_model(const ModelFlags& flags, const std::string& command);

/// throws  usage_error if `folder`, the value of `flag`, is no folder
void expect_folder(const std::string& folder, const std::string& command, const std::string& flag);
/// throws  usage_error if `file`, the value of `flag`, is a folder or has none to lie in
void expect_place(const std::string& file, const std::string& command, const std::string& flag);

/// The videos of a folder: those to open, and those that cannot be.
struct Listing {
  std::vector<std::string> names;
  std::vector<eval::Unreadable> refused;
};

/// Every file of a folder but hidden ones, every key of an LMDB; what is no video shows when it is opened.
/// throws  content_error if there is none to open
[[nodiscard]] Listing videos_in(const data::ClipFolder& folder);

/// The videos of a listing as the model takes them.
[[nodiscard]] std::shared_ptr<const data::VideoSet> open_videos(const TrainedModel& trained,
                                                                const data::ClipFolder& folder,
                                                                std::vector<std::string> names);

/// Says on stderr which videos are left out or damaged.
void report(const Condition& condition);

}  // namespace clipbert::cli
