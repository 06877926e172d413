/// Zip archives of stored entries, as PyTorch's files are, through libzip.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

struct zip;

namespace clipbert::io {

/// An archive that is read. Its directory is checked against the file: no entry is compressed or encrypted, no name
/// stands twice, and the entries together are no larger than the file.
class ZipReader {
 public:
  /// throws  content_error with the file and the reason
  explicit ZipReader(const std::filesystem::path& file);

  /// Bytes of each entry.
  [[nodiscard]] const std::map<std::string, std::uint64_t>& sizes() const { return sizes_; }
  /// The content of an entry, its checksum compared.
  /// throws  content_error if there is none, or it is damaged
  [[nodiscard]] std::vector<std::byte> read(const std::string& name) const;

 private:
  struct Close {
    void operator()(zip* archive) const;
  };

  std::string file_;
  std::unique_ptr<zip, Close> archive_;
  std::map<std::string, std::uint64_t> sizes_;
};

struct ZipEntry {
  std::string name;
  std::span<const std::byte> bytes;
  bool aligned = false;  ///< its bytes begin at a multiple of 64 in the file
};

/// Writes an archive of stored entries, in this order, atomically. Equal input gives equal bytes.
/// throws  content_error if it cannot be written
void write_zip(const std::filesystem::path& file, std::span<const ZipEntry> entries);

}  // namespace clipbert::io
