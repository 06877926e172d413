/// A child process of this same program that takes and answers lines.
#pragma once
#include <sys/types.h>

#include <string>

#include "cli/frame.hpp"

namespace clipbert::cli {

/// Runs `clipbert words...`: what is said to it comes in on its standard input, its answers go out on `answer_fd`.
/// Its error output is this process's. It is ended and reaped with the object.
class Child {
 public:
  static constexpr int answer_fd = 3;

  explicit Child(const Words& words);
  ~Child();
  Child(const Child&) = delete;  // it owns a process
  Child& operator=(const Child&) = delete;

  /// throws  std::runtime_error if the child has ended
  void say(const std::string& line);
  /// The next line, or an empty text if the child has ended.
  [[nodiscard]] std::string hear();
  /// Waits for its end. Exit code, or 128 + signal.
  int wait();

 private:
  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
  std::string rest_;
};

}  // namespace clipbert::cli
