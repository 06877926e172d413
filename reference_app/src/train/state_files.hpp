/// The states that a run goes on from, in restore/. A kill at any instant leaves a sound one.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/state.hpp"

namespace clipbert::train {

/// Takes a line about what was passed over or removed.
using Remark = std::function<void(std::string_view)>;

/// `<output_dir>/restore/`: two complete states that are written in turn, so one is always whole.
class StateFiles {
 public:
  explicit StateFiles(const std::filesystem::path& output_dir);

  /// Replaces the older of the two, or the damaged one. Which one that is, is read once; from then on they take turns.
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

/// A state, and the output folder of the run that it is of; empty for a file outside of any.
struct FoundState {
  TrainingState state;
  std::filesystem::path run;
};

/// Whether the file is of this program's form; else another program may have saved it (train/foreign_state.hpp).
[[nodiscard]] bool is_own_state(const std::filesystem::path& file);

/// What `resume` asks for: auto, never, required, or the path of a state file or an output folder.
/// throws  usage_error if `required` finds none or the path does not exist; content_error if none is sound
[[nodiscard]] std::optional<FoundState> find_state(const std::string& resume, const std::filesystem::path& output_dir,
                                                   const Remark& remark = {});

}  // namespace clipbert::train
