/// SIGINT, SIGTERM and SIGHUP: noted, so that a run can finish its step and save its state.
#pragma once
#include <signal.h>

#include <array>

namespace clipbert::cli {

/// Notes SIGINT, SIGTERM and SIGHUP from now on; a second SIGINT or SIGTERM ends the program at once. SIGPIPE is
/// ignored: a reader of the messages that goes away does not end a run. Undone at the end of its life.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;  // it stands for the process's one set of handlers
  StopSignals& operator=(const StopSignals&) = delete;

  /// True once a signal came.
  [[nodiscard]] static bool requested() noexcept;

 private:
  static constexpr std::array<int, 4> signals{SIGINT, SIGTERM, SIGHUP, SIGPIPE};
  std::array<struct sigaction, signals.size()> before_{};
};

}  // namespace clipbert::cli
