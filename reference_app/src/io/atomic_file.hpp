/// Files that are whole or not there: a kill or a full disk never harms what stood in the place before.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace clipbert::io {

/// Writes beside its place (`<name>.tmp`); commit() flushes to the disk and renames. Without commit() nothing changes.
/// throws  content_error with the path, the system's reason and what to do
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path place);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;  // owns an open file
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// Where the next write goes, from the start; for formats that complete a header later.
  void seek(std::uint64_t place);
  /// After it returns, the new content survives a loss of power.
  void commit();

 private:
  [[noreturn]] void fail(const char* action);

  std::filesystem::path place_, beside_;
  int file_ = -1;
};

/// The whole of `text` at `place`, or what was there before.
void write_atomically(const std::filesystem::path& place, std::string_view text);

/// Removes what killed writers left in `folder` (`*.tmp`); returns how many.
std::size_t remove_leftovers(const std::filesystem::path& folder);

}  // namespace clipbert::io
