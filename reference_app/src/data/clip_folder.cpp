#include "data/clip_folder.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include "config/errors.hpp"
#include "data/lmdb.hpp"

namespace clipbert::data {

namespace fs = std::filesystem;

bool leaves_folder(std::string_view clip) {
  const fs::path name(clip);
  return name.is_absolute() || std::find(name.begin(), name.end(), "..") != name.end();
}

ClipFolder::ClipFolder(fs::path folder) : folder_(std::move(folder)) {
  std::error_code error;
  if (!fs::is_directory(folder_, error)) throw content_error(folder_.string() + ": no such folder of clips");
  if (fs::exists(folder_ / Lmdb::data_file, error)) {
    lmdb_ = std::make_shared<const Lmdb>(folder_);
    names_.insert(lmdb_->keys().begin(), lmdb_->keys().end());
  } else {
    list_files();
  }
  for (const std::string& name : names_) {  // in order, so each stem's list is sorted
    const fs::path path(name);
    by_stem_[(path.parent_path() / path.stem()).string()].push_back(name);
  }
}

void ClipFolder::list_files() {
  std::error_code error;
  const fs::directory_iterator entries(folder_, error);
  if (error) {
    throw content_error(folder_.string() + ": cannot be listed: " + error.message() + "; check its permissions");
  }
  for (const auto& entry : entries) {
    if (entry.is_regular_file(error)) names_.insert(entry.path().filename().string());  // no link in a circle
  }
}

VideoSource ClipFolder::source(const std::string& name) const {
  if (lmdb_ != nullptr) {
    const std::string label = (folder_ / name).string();
    const auto bytes = lmdb_->value(name);
    if (!bytes) throw content_error(label + ": the LMDB lists this key but does not find it; make it again");
    return {label, *bytes, lmdb_};
  }
  std::error_code error;
  const fs::path target = fs::canonical(folder_ / name, error), root = fs::canonical(folder_);
  if (error) throw content_error((folder_ / name).string() + ": is gone since the folder was listed");
  if (std::mismatch(root.begin(), root.end(), target.begin(), target.end()).first != root.end()) {
    throw content_error(folder_.string() + ": clip \"" + name + "\" is a link that leaves the folder; it is refused");
  }
  return folder_ / name;
}

std::optional<VideoSource> ClipFolder::find(const std::string& clip) const {
  if (leaves_folder(clip)) {
    throw content_error(folder_.string() + ": clip \"" + clip + "\" leaves the folder; it is refused");
  }
  if (names_.contains(clip)) return source(clip);
  const auto found = by_stem_.find(clip);
  if (found == by_stem_.end()) return std::nullopt;
  if (found->second.size() > 1) {
    std::string all;
    for (const std::string& one : found->second) all += (all.empty() ? "" : ", ") + one;
    throw content_error(folder_.string() + ": clip \"" + clip + "\" fits several " + entry() + "s: " + all);
  }
  return source(found->second.front());
}

std::vector<std::string> ClipFolder::names() const {
  std::vector<std::string> result;
  for (const std::string& name : names_) {
    if (lmdb_ != nullptr || !name.starts_with('.')) result.push_back(name);
  }
  return result;
}

}  // namespace clipbert::data
