/// The folder of a run: one process at a time writes into it, and it holds the files of one run only.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>

namespace clipbert::cli {

/// Holds the folder of a run for this process. The system lets go of it when the process ends, however it ends.
class RunLock {
 public:
  /// Makes the folder if need be.
  /// throws  usage_error if it cannot be made, or another process holds it
  explicit RunLock(const std::filesystem::path& output_dir);
  ~RunLock();
  RunLock(const RunLock&) = delete;  // it owns an open file
  RunLock& operator=(const RunLock&) = delete;

 private:
  int file_ = -1;
};

/// Moves an earlier run out of the way of one that starts anew: log, ckpt, restore and results go to
/// `<output_dir>/earlier_N`, which is the folder of a run itself. -> that folder; nothing if there was no run
std::optional<std::filesystem::path> set_aside_run(const std::filesystem::path& output_dir);

/// The same for weights and states of steps after `step`, for a run that goes on from an older state that was asked
/// for; settings and metrics are copied.
std::optional<std::filesystem::path> set_aside_after(const std::filesystem::path& output_dir, std::int64_t step);

}  // namespace clipbert::cli
