#include "program.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

extern char** environ;

namespace test_support {
namespace {

std::string program_path() {
  const char* path = std::getenv("AMP_CLIPBERT");
  if (path == nullptr || *path == '\0') throw std::runtime_error("AMP_CLIPBERT must name the program (ctest sets it)");
  return std::filesystem::absolute(path).string();
}

}  // namespace

Program::Program(const std::vector<std::string>& words, const std::filesystem::path& folder) {
  static std::atomic<int> count{0};
  const std::string stem = "." + std::to_string(++count);
  out_ = folder / (stem + ".out");
  err_ = folder / (stem + ".err");
  std::vector<std::string> all{program_path()};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> argv;
  for (auto& word : all) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int code = posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (code != 0) throw std::runtime_error("cannot start " + all[0]);
}

Program::~Program() {
  if (reaped_) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, &status_, 0);
}

void Program::signal(int number) const { kill(pid_, number); }

bool Program::ended() {
  if (!reaped_) reaped_ = waitpid(pid_, &status_, WNOHANG) == pid_;
  return reaped_;
}

Outcome Program::wait() {
  if (!reaped_) waitpid(pid_, &status_, 0);
  reaped_ = true;
  return {WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_), read_text(out_), read_text(err_)};
}

Outcome Folder::run(const std::vector<std::string>& words) const { return Program(words, path()).wait(); }

std::string read_text(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

bool one_line(const std::string& text) { return !text.empty() && text.find('\n') == text.size() - 1; }

}  // namespace test_support
