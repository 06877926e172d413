/// Where the clips of a data set lie: a plain folder of video and picture files, or an LMDB.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "data/video_source.hpp"

namespace clipbert::data {

class Lmdb;

/// True if a clip's name, read as a path, would lead out of its folder.
[[nodiscard]] bool leaves_folder(std::string_view clip);

/// A folder of clips, listed once: files by name, or an LMDB's values by key (a folder with a data.mdb, as the original
/// makes it). Only what lies inside is ever named or opened. Safe to use from many threads.
class ClipFolder {
 public:
  /// throws  content_error if `folder` is no folder, or an LMDB that is damaged
  explicit ClipFolder(std::filesystem::path folder);

  /// A clip's bytes: the file or key of exactly that name, else the only one with that stem; none if there is none.
  /// throws  content_error if several have that stem (named), or the name leaves the folder
  [[nodiscard]] std::optional<VideoSource> find(const std::string& clip) const;
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] bool is_lmdb() const { return lmdb_ != nullptr; }
  /// What one clip of it is called in messages.
  [[nodiscard]] const char* entry() const { return is_lmdb() ? "key" : "file"; }
  /// Names of all files (but those that begin with a dot), or all keys, sorted.
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  void list_files();
  [[nodiscard]] VideoSource source(const std::string& name) const;

  std::filesystem::path folder_;
  std::shared_ptr<const Lmdb> lmdb_;
  std::set<std::string> names_;
  std::map<std::string, std::vector<std::string>> by_stem_;
};

}  // namespace clipbert::data
