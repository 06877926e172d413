#include "cli/child.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <vector>

extern char** environ;

namespace clipbert::cli {
namespace {

[[noreturn]] void fail(const char* what, int code) {
  throw std::runtime_error(std::string("cannot ") + what + " for a worker process: " + std::strerror(code));
}

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) fail("make a pipe", errno);
    read = ends[0], write = ends[1];
  }
};

}  // namespace

Child::Child(const Words& words) {
  const Pipe questions, answers;
  to_ = questions.write;
  from_ = answers.read;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, questions.read, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  // A dup2 onto itself would keep close-on-exec, so the write end first moves out of the way.
  const int high = fcntl(answers.write, F_DUPFD_CLOEXEC, answer_fd + 1);
  posix_spawn_file_actions_adddup2(&actions, high, answer_fd);
  Words all{"clipbert"};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> argv;
  for (auto& word : all) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int code = posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(questions.read), close(answers.write), close(high);
  if (code != 0) {
    close(to_), close(from_);
    fail("start the program again", code);
  }
}

Child::~Child() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    wait();
  }
  close(to_), close(from_);
}

void Child::say(const std::string& line) {
  const std::string text = line + '\n';
  struct sigaction ignore = {}, before = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &before);  // a child that is gone is an error of the write, not the end of this process
  const bool sent = write(to_, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  sigaction(SIGPIPE, &before, nullptr);
  if (!sent) throw std::runtime_error("a worker process ended early");
}

std::string Child::hear() {
  for (;;) {
    if (const auto end = rest_.find('\n'); end != std::string::npos) {
      std::string line = rest_.substr(0, end);
      rest_.erase(0, end + 1);
      return line;
    }
    char buffer[4096];
    const ssize_t n = read(from_, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return {};
    rest_.append(buffer, static_cast<std::size_t>(n));
  }
}

int Child::wait() {
  if (pid_ <= 0) return 0;
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace clipbert::cli
