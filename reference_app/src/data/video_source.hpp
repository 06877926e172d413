/// Where the bytes of one video or picture lie.
#pragma once
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace clipbert::data {

/// A file, or bytes in memory such as a value of an LMDB.
class VideoSource {
 public:
  VideoSource(std::filesystem::path file)  // NOLINT(google-explicit-constructor): a path is what most callers have
      : name_(file.string()), file_(std::move(file)) {}
  VideoSource(const std::string& file) : VideoSource(std::filesystem::path(file)) {}  // NOLINT: as above
  VideoSource(const char* file) : VideoSource(std::filesystem::path(file)) {}         // NOLINT: as above
  /// `bytes` stay where they are as long as `owner` lives.
  VideoSource(std::string name, std::span<const std::byte> bytes, std::shared_ptr<const void> owner)
      : name_(std::move(name)), bytes_(bytes), owner_(std::move(owner)) {}

  /// The path, or folder/key: what messages call it.
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool in_memory() const { return owner_ != nullptr; }
  [[nodiscard]] const std::filesystem::path& file() const { return file_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::string name_;
  std::filesystem::path file_;
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
};

}  // namespace clipbert::data
