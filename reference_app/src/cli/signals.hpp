/// SIGINT and SIGTERM: noted, so that a run can finish its step and save its state.
#pragma once

namespace clipbert::cli {

/// Notes the first SIGINT or SIGTERM from now on; the second one ends the program at once. Undone at the end of its
/// life.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;  // it stands for the process's one set of handlers
  StopSignals& operator=(const StopSignals&) = delete;

  /// True once a signal came.
  [[nodiscard]] static bool requested() noexcept;
};

}  // namespace clipbert::cli
