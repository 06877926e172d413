#include "cli/run_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "config/errors.hpp"
#include "train/checkpoint.hpp"
#include "train/state_files.hpp"

namespace fs = std::filesystem;

namespace clipbert::cli {
namespace {

/// `<output_dir>/earlier_N` with the first N that is free.
fs::path new_place(const fs::path& output_dir) {
  for (std::int64_t n = 1;; ++n) {
    fs::path place = output_dir / ("earlier_" + std::to_string(n));
    if (!fs::exists(place)) return place;
  }
}

bool holds_files(const fs::path& folder) {
  std::error_code error;
  const fs::directory_iterator entries(folder, error);
  return !error && entries != fs::directory_iterator();
}

std::string holder_of(int file) {
  char text[32] = {};
  const auto n = pread(file, text, sizeof text - 1, 0);
  return n > 0 ? " (process " + std::string(text, static_cast<std::size_t>(n)) + ")" : std::string();
}

}  // namespace

RunLock::RunLock(const fs::path& output_dir) {
  const auto refuse = [&](const std::string& why) {
    throw usage_error("output_dir " + output_dir.string() + " " + why);
  };
  std::error_code error;
  fs::create_directories(output_dir, error);
  if (error) refuse("cannot be made: " + error.message() + "; check the path and its permissions");
  const fs::path place = output_dir / ".lock";
  file_ = ::open(place.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) refuse("cannot be written to: " + std::string(std::strerror(errno)) + "; check its permissions");
  if (::flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {  // other errors: a disk without locks
    const std::string holder = holder_of(file_);
    ::close(file_);
    refuse("is in use by another clipbert" + holder + "; wait for its end, or give another folder");
  }
  const std::string own = std::to_string(::getpid());
  if (::ftruncate(file_, 0) != 0 || ::pwrite(file_, own.data(), own.size(), 0) < 0) return;  // only for the message
}

RunLock::~RunLock() { ::close(file_); }

std::optional<fs::path> set_aside_run(const fs::path& output_dir) {
  if (!holds_files(output_dir / "ckpt") && !holds_files(output_dir / "restore")) return std::nullopt;
  std::vector<fs::path> parts{"restore", "ckpt", "log"};  // states first: a cut here leaves nothing to go on from
  for (const auto& entry : fs::directory_iterator(output_dir)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("results_") || name == "report.html") parts.emplace_back(name);
  }
  const fs::path place = new_place(output_dir);
  fs::create_directories(place);
  for (const auto& part : parts) {
    if (fs::exists(output_dir / part)) fs::rename(output_dir / part, place / part);
  }
  return place;
}

std::optional<fs::path> set_aside_after(const fs::path& output_dir, std::int64_t step) {
  std::vector<fs::path> files;
  const train::ModelFiles weights(output_dir);
  for (const auto saved : weights.steps()) {
    if (saved > step) files.push_back("ckpt" / weights.file_of(saved).filename());
  }
  if (weights.best().value_or(0) > step) files.emplace_back("ckpt/best");
  for (const auto& [file, saved] : train::StateFiles(output_dir).steps()) {
    if (saved > step) files.push_back("restore" / file.filename());
  }
  if (files.empty()) return std::nullopt;
  const fs::path place = new_place(output_dir);
  for (const char* part : {"restore", "ckpt", "log"}) fs::create_directories(place / part);
  for (const char* name : {"args.json", "model_config.json", "vocab.txt", "metrics.jsonl"}) {
    const fs::path file = output_dir / "log" / name;
    if (fs::exists(file)) fs::copy_file(file, place / "log" / name);
  }
  for (const auto& file : files) fs::rename(output_dir / file, place / file);
  return place;
}

}  // namespace clipbert::cli
