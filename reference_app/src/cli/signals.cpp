#include "cli/signals.hpp"

#include <csignal>

namespace clipbert::cli {
namespace {

// A signal handler can reach nothing but globals.
volatile std::sig_atomic_t stop_requested = 0, asked_by_hand = 0;

/// A closing terminal sends SIGHUP more than once, so only a repeated SIGINT or SIGTERM means "at once".
void note(int signal) {
  const bool by_hand = signal != SIGHUP;
  if (by_hand && asked_by_hand != 0) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
    return;
  }
  stop_requested = 1;
  if (by_hand) asked_by_hand = 1;
}

}  // namespace

StopSignals::StopSignals() {
  stop_requested = 0;
  asked_by_hand = 0;
  for (std::size_t i = 0; i < signals.size(); ++i) {
    struct sigaction action = {};
    action.sa_handler = signals[i] == SIGPIPE ? SIG_IGN : &note;
    action.sa_flags = SA_RESTART;  // a read in a loader thread goes on
    sigemptyset(&action.sa_mask);
    sigaction(signals[i], nullptr, &before_[i]);
    // What the caller ignores stays ignored: nohup and shells that start a command in the background rely on it.
    if (before_[i].sa_handler != SIG_IGN) sigaction(signals[i], &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &before_[i], nullptr);
}

bool StopSignals::requested() noexcept { return stop_requested != 0; }

}  // namespace clipbert::cli
