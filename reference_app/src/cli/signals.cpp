#include "cli/signals.hpp"

#include <csignal>

namespace clipbert::cli {
namespace {

// A signal handler can reach nothing but a global.
volatile std::sig_atomic_t stop_requested = 0;

void note(int signal) {
  if (stop_requested != 0) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
    return;
  }
  stop_requested = 1;
}

void handle(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;  // a read in a loader thread goes on
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

StopSignals::StopSignals() {
  stop_requested = 0;
  handle(&note);
}
StopSignals::~StopSignals() { handle(SIG_DFL); }
bool StopSignals::requested() noexcept { return stop_requested != 0; }

}  // namespace clipbert::cli
