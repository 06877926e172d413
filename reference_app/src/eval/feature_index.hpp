/// Features of a gallery in a file: each video is encoded once, searched any number of times.
///
/// The file, little endian: 64 bytes of head ("clipbidx", version, place, size and digest of the directory); for each
/// video the bytes of its grid, then a JPEG; at the end the directory, JSON: what the features depend on, names,
/// places, a digest of every part. It is written from front to back, put in its place when it is whole, and read piece
/// by piece.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "eval/retrieval.hpp"
#include "io/atomic_file.hpp"

namespace clipbert::eval {

/// What the features of an index depend on, and what is said of it.
struct IndexOrigin {
  std::string model;     ///< digest_of(model), weights as they are cast
  std::string settings;  ///< clips, frames, normalisation, level: one line that must be equal
  std::int64_t n_clips = 0;
  std::string weights;  ///< the file that they came from, for messages
  std::string folder;   ///< of the videos
};

/// A file as it was when it was read: a video of the same stamp need not be read again.
struct FileStamp {
  std::uint64_t bytes = 0;
  std::int64_t modified = 0;  ///< nanoseconds of the file's clock

  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

/// A video of an index.
struct IndexEntry {
  std::string name;
  FileStamp stamp;
  std::string damage;   ///< what is wrong with a video that still plays; empty: nothing
  at::Tensor grid;      ///< (clips, h, w, hidden)
  std::string picture;  ///< JPEG, may be empty
};

/// Writes an index; memory holds names and places only.
class IndexWriter {
 public:
  /// throws  content_error if the file cannot be written
  IndexWriter(const std::filesystem::path& place, IndexOrigin origin);
  ~IndexWriter();

  /// throws  content_error if the grid differs in shape or type from the first, or the disk is full
  void add(const IndexEntry& entry);
  /// Writes the directory and puts the file in its place; without it nothing changes there.
  void commit(const std::vector<Unreadable>& unreadable);

 private:
  struct Directory;
  io::AtomicFile file_;
  std::unique_ptr<Directory> directory_;
  std::uint64_t place_;
};

/// An index that was written, read piece by piece. Nothing in the file is trusted.
class FeatureIndex final : public Features {
 public:
  /// throws  content_error that names the file: no index, of another version, cut, damaged
  explicit FeatureIndex(std::filesystem::path file);
  ~FeatureIndex() override;

  [[nodiscard]] const std::vector<std::string>& names() const override;
  /// throws  content_error naming the video whose bytes are not those that were written
  [[nodiscard]] at::Tensor grids(std::int64_t first, std::int64_t last) const override;
  [[nodiscard]] const std::vector<Unreadable>& unreadable() const override;
  [[nodiscard]] std::vector<Unreadable> damaged() const;
  [[nodiscard]] const IndexOrigin& origin() const;
  /// Of a video; may be empty.
  [[nodiscard]] std::string picture(std::int64_t video) const;
  /// Everything that is known of the video of this name and stamp, if it is there.
  [[nodiscard]] std::optional<IndexEntry> find(const std::string& name, const FileStamp& stamp) const;

 private:
  struct Content;
  std::filesystem::path file_;
  std::unique_ptr<Content> content_;
};

}  // namespace clipbert::eval
