/// The app's errors; the kind decides the exit code (cli/main.cpp).
#pragma once
#include <stdexcept>

namespace clipbert {

/// Exit code 2: a flag, the config's syntax or a value, a path in the config that does not exist.
struct usage_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Exit code 3: captions, videos, vocabulary, weights or a state that cannot be used.
struct content_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Exit code 4: training diverged; the message names the reason and the first bad tensor.
struct diverged_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace clipbert
