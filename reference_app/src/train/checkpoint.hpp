/// The files of a run: weights in ckpt/, complete states in restore/. A kill at any instant leaves the last sound one.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/state.hpp"

namespace clipbert::train {

/// Weights by name, as files hold them.
using ModelState = std::map<std::string, at::Tensor>;
/// Takes a line about what was passed over or removed.
using Remark = std::function<void(std::string_view)>;

/// `<output_dir>/ckpt/model_step_N.safetensors`: fp32 under the original's names.
class ModelFiles {
 public:
  /// `keep`: how many of the newest stay, besides the best.
  explicit ModelFiles(const std::filesystem::path& output_dir, std::int64_t keep = 3);

  /// Writes the weights of a step and removes files that are neither new nor best. -> the file
  std::filesystem::path save(std::int64_t step, const ModelState& model);
  /// Points `ckpt/best` at the file of a step.
  /// throws  content_error if that step was not saved
  void mark_best(std::int64_t step);
  /// Steps with a file, ascending.
  [[nodiscard]] std::vector<std::int64_t> steps() const;
  /// The step that `ckpt/best` points to, if any.
  [[nodiscard]] std::optional<std::int64_t> best() const;
  /// The file of a step.
  [[nodiscard]] std::filesystem::path file_of(std::int64_t step) const;

 private:
  void prune() const;

  std::filesystem::path folder_;
  std::int64_t keep_;
};

/// Reads weights. throws  content_error naming the file
[[nodiscard]] ModelState read_model(const std::filesystem::path& file);

/// `<output_dir>/restore/`: two complete states that are written in turn, so one is always whole.
class StateFiles {
 public:
  explicit StateFiles(const std::filesystem::path& output_dir);

  /// Replaces the older of the two, or the damaged one.
  void save(const TrainingState& state);
  /// The newest sound state; nothing if there is none. A damaged one is passed over, and `remark` told.
  /// throws  content_error if states exist and none is sound
  [[nodiscard]] std::optional<TrainingState> load(const Remark& remark = {}) const;
  /// The sound states and the step of each.
  [[nodiscard]] std::vector<std::pair<std::filesystem::path, std::int64_t>> steps() const;

 private:
  std::filesystem::path folder_;
  std::optional<std::size_t> next_;  ///< which of the two is written next
};

/// One state file, checked to the last byte.
/// throws  content_error naming the file and what is wrong with it
[[nodiscard]] TrainingState read_state(const std::filesystem::path& file);
void write_state(const std::filesystem::path& file, const TrainingState& state);

/// What `resume` asks for: auto, never, required, or the path of a state file or an output folder.
/// throws  usage_error if `required` finds none or the path does not exist; content_error if none is sound
[[nodiscard]] std::optional<TrainingState> find_state(const std::string& resume,
                                                      const std::filesystem::path& output_dir,
                                                      const Remark& remark = {});

/// Bytes of the files in `<output_dir>/ckpt` and `<output_dir>/restore`.
[[nodiscard]] std::int64_t bytes_in_use(const std::filesystem::path& output_dir);

/// throws  content_error if the disk of `folder` has less than `bytes` left
void expect_space(const std::filesystem::path& folder, std::int64_t bytes);

}  // namespace clipbert::train
