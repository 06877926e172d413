#include "io/atomic_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "config/errors.hpp"

namespace clipbert::io {
namespace fs = std::filesystem;

namespace {

/// A rename is on the disk only when its folder is; file systems that cannot flush folders say EINVAL.
bool flush_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool flushed = ::fsync(descriptor) == 0 || errno == EINVAL;
  ::close(descriptor);
  return flushed;
}

}  // namespace

AtomicFile::AtomicFile(fs::path place) : place_(std::move(place)) {
  std::error_code error;
  if (fs::is_symlink(place_, error)) {  // replace what the link names, not the link
    const auto target = fs::weakly_canonical(place_, error);
    if (!error) place_ = target;
  }
  beside_ = place_;
  beside_ += ".tmp";
  file_ = ::open(beside_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_ < 0) fail("cannot be written");
}

AtomicFile::~AtomicFile() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlink(beside_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto written = ::write(file_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail("cannot be written");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::seek(std::uint64_t place) {
  if (::lseek(file_, static_cast<off_t>(place), SEEK_SET) < 0) fail("cannot be written");
}

void AtomicFile::commit() {
  if (::fsync(file_) != 0) fail("cannot be flushed");
  const int descriptor = std::exchange(file_, -1);
  if (::close(descriptor) != 0 || ::rename(beside_.c_str(), place_.c_str()) != 0) {
    const int reason = errno;
    ::unlink(beside_.c_str());
    errno = reason;
    fail("cannot be put in its place");
  }
  if (!flush_folder(place_.parent_path())) fail("cannot be flushed");
}

void AtomicFile::fail(const char* action) {
  const int reason = errno;
  const char* advice = reason == ENOSPC || reason == EDQUOT ? "; free some space or take another folder"
                       : reason == ENOENT                   ? "; make the folder first"
                                                            : "; check the folder and its permissions";
  throw content_error(place_.string() + ": " + action + ": " + std::generic_category().message(reason) + advice);
}

void write_atomically(const fs::path& place, std::string_view text) {
  AtomicFile file(place);
  file.write(text);
  file.commit();
}

std::size_t remove_leftovers(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error))
    if (entry->path().extension() == ".tmp" && entry->is_regular_file(error)) found.push_back(entry->path());
  std::size_t count = 0;
  for (const auto& file : found) count += fs::remove(file, error) ? 1 : 0;
  return count;
}

}  // namespace clipbert::io
