#include "eval/feature_index.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>

#include "config/errors.hpp"
#include "data/utf8.hpp"
#include "eval/digest.hpp"

namespace fs = std::filesystem;

namespace clipbert::eval {
namespace {

using Json = nlohmann::json;
static_assert(std::endian::native == std::endian::little, "the file holds numbers and grids as they lie in memory");

constexpr std::uint32_t version = 1;
constexpr std::uint64_t most_directory = std::uint64_t{1} << 30;

struct Head {
  std::array<char, 8> magic{'c', 'l', 'i', 'p', 'b', 'i', 'd', 'x'};
  std::uint32_t version = eval::version, unused = 0;
  std::uint64_t place = 0, bytes = 0;  ///< of the directory
  std::array<char, 32> digest{};       ///< of the directory
};
static_assert(sizeof(Head) == 64);

struct Part {
  std::uint64_t place = 0, bytes = 0;
  std::string digest;
};

struct Row {
  FileStamp stamp;
  std::string damage;
  Part grid, picture;
};

/// Names of files may be bytes that are no text, which JSON cannot hold.
Json text_json(const std::string& text) {
  if (data::is_utf8(text)) return text;
  auto bytes = Json::array();
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

std::string text_of(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  std::string text;
  for (const auto byte : json.get<std::vector<std::uint8_t>>()) text += static_cast<char>(byte);
  return text;
}

Json to_json(const Part& part) { return Json::array({part.place, part.bytes, part.digest}); }

/// throws  std::exception if it does not lie between head and directory
Part part_of(const Json& json, std::uint64_t end) {
  Part part{json.at(0).get<std::uint64_t>(), json.at(1).get<std::uint64_t>(), json.at(2).get<std::string>()};
  if (part.place < sizeof(Head) || part.place > end || part.bytes > end - part.place)
    throw std::out_of_range("a part lies outside the file");
  return part;
}

std::string_view name_of(at::ScalarType type) {
  return type == at::kBFloat16 ? "BF16" : type == at::kHalf ? "F16" : type == at::kFloat ? "F32" : "";
}

at::ScalarType type_of(const std::string& name) {
  for (const auto type : {at::kBFloat16, at::kHalf, at::kFloat})
    if (name_of(type) == name) return type;
  throw std::out_of_range("grids of type " + name);
}

std::span<const std::byte> bytes_of(const at::Tensor& t) {
  return {static_cast<const std::byte*>(t.const_data_ptr()), t.nbytes()};
}

/// A file that is read at places.
class Reader {
 public:
  explicit Reader(const fs::path& file) : file_(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    struct stat about {};
    if (file_ < 0 || ::fstat(file_, &about) != 0) {
      const auto reason = std::generic_category().message(errno);
      close();
      throw content_error(file.string() + ": cannot be read: " + reason);
    }
    if (!S_ISREG(about.st_mode)) {
      close();
      throw content_error(file.string() + ": is no index: no regular file; make one with `clipbert index`");
    }
    size_ = static_cast<std::uint64_t>(about.st_size);
  }
  ~Reader() { close(); }
  Reader(const Reader&) = delete;  // owns an open file
  Reader& operator=(const Reader&) = delete;

  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// False if there are not so many bytes.
  [[nodiscard]] bool read(std::uint64_t place, std::span<std::byte> into) const {
    while (!into.empty()) {
      const auto got = ::pread(file_, into.data(), into.size(), static_cast<off_t>(place));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      place += static_cast<std::uint64_t>(got);
      into = into.subspan(static_cast<std::size_t>(got));
    }
    return true;
  }

 private:
  void close() const {
    if (file_ >= 0) ::close(file_);
  }
  int file_;
  std::uint64_t size_ = 0;
};

}  // namespace

// ---- writing ----------------------------------------------------------------------------------------------

struct IndexWriter::Directory {
  Json json, videos = Json::array();
  std::vector<std::int64_t> shape;
  at::ScalarType type = at::kFloat;
};

IndexWriter::IndexWriter(const fs::path& place, IndexOrigin origin)
    : file_(place), directory_(std::make_unique<Directory>()), place_(sizeof(Head)) {
  directory_->json = {{"model", origin.model},
                      {"settings", origin.settings},
                      {"n_clips", origin.n_clips},
                      {"weights", text_json(origin.weights)},
                      {"folder", text_json(origin.folder)}};
  file_.write(std::string(sizeof(Head), '\0'));
}

IndexWriter::~IndexWriter() = default;

void IndexWriter::add(const IndexEntry& entry) {
  const auto grid = entry.grid.to(at::kCPU).contiguous();
  auto& d = *directory_;
  if (d.videos.empty()) d.shape = grid.sizes().vec(), d.type = grid.scalar_type();
  if (grid.sizes() != at::IntArrayRef(d.shape) || grid.scalar_type() != d.type)
    throw content_error(entry.name + ": its features differ in shape from those of the first video");
  const auto put = [&](std::span<const std::byte> bytes) {
    file_.write(bytes);
    const Part part{place_, bytes.size(), digest_of(bytes)};
    place_ += bytes.size();
    return to_json(part);
  };
  Json row{{"name", text_json(entry.name)}, {"bytes", entry.stamp.bytes}, {"modified", entry.stamp.modified}};
  row["grid"] = put(bytes_of(grid));
  row["picture"] = put(std::as_bytes(std::span(entry.picture)));
  if (!entry.damage.empty()) row["damage"] = text_json(entry.damage);
  d.videos.push_back(std::move(row));
}

void IndexWriter::commit(const std::vector<Unreadable>& unreadable) {
  auto& d = *directory_;
  d.json["shape"] = d.shape;
  d.json["type"] = name_of(d.type);
  d.json["videos"] = std::move(d.videos);
  auto& others = d.json["unreadable"] = Json::array();
  for (const auto& video : unreadable) others.push_back({text_json(video.name), text_json(video.reason)});
  const std::string text = d.json.dump();
  file_.write(text);
  Head head;
  head.place = place_;
  head.bytes = text.size();
  std::ranges::copy(digest_of(std::as_bytes(std::span(text))), head.digest.begin());
  file_.seek(0);
  file_.write(std::as_bytes(std::span(&head, 1)));
  file_.commit();
}

// ---- reading ----------------------------------------------------------------------------------------------

struct FeatureIndex::Content {
  explicit Content(const fs::path& file) : reader(file) {}

  Reader reader;
  IndexOrigin origin;
  std::vector<std::int64_t> shape;
  at::ScalarType type = at::kFloat;
  std::vector<std::string> names;
  std::vector<Row> rows;
  std::map<std::string, std::size_t> by_name;
  std::vector<Unreadable> unreadable;

  void parse(const Json& json, std::uint64_t end);
  /// throws  content_error if the bytes are not those that were written
  void fetch(const Part& part, std::span<std::byte> into, const fs::path& file, const std::string& name) const;
};

void FeatureIndex::Content::parse(const Json& json, std::uint64_t end) {
  origin = {.model = json.at("model"),
            .settings = json.at("settings"),
            .n_clips = json.at("n_clips"),
            .weights = text_of(json.at("weights")),
            .folder = text_of(json.at("folder"))};
  shape = json.at("shape").get<std::vector<std::int64_t>>();
  type = type_of(json.at("type"));
  std::uint64_t bytes = c10::elementSize(type);
  for (const auto size : shape) {
    if (size < 1 || bytes > end / static_cast<std::uint64_t>(size)) throw std::out_of_range("grids of a wrong shape");
    bytes *= static_cast<std::uint64_t>(size);
  }
  if (shape.size() != 4) throw std::out_of_range("grids of a wrong shape");
  for (const auto& video : json.at("videos")) {
    Row row{.stamp = {video.at("bytes"), video.at("modified")},
            .damage = video.contains("damage") ? text_of(video.at("damage")) : "",
            .grid = part_of(video.at("grid"), end),
            .picture = part_of(video.at("picture"), end)};
    if (row.grid.bytes != bytes) throw std::out_of_range("a grid of a wrong size");
    names.push_back(text_of(video.at("name")));
    by_name.emplace(names.back(), rows.size());
    rows.push_back(std::move(row));
  }
  for (const auto& video : json.at("unreadable")) unreadable.push_back({text_of(video.at(0)), text_of(video.at(1))});
}

void FeatureIndex::Content::fetch(const Part& part, std::span<std::byte> into, const fs::path& file,
                                  const std::string& name) const {
  if (!reader.read(part.place, into) || digest_of(into) != part.digest)
    throw content_error(file.string() + ": is damaged at video " + name + "; make it again with `clipbert index`");
}

FeatureIndex::FeatureIndex(fs::path file) : file_(std::move(file)), content_(std::make_unique<Content>(file_)) {
  const auto refuse = [&](const std::string& what) {
    throw content_error(file_.string() + ": " + what + "; make it again with `clipbert index`");
  };
  const auto& reader = content_->reader;
  Head head;
  const Head right;
  if (!reader.read(0, std::as_writable_bytes(std::span(&head, 1))) || head.magic != right.magic) refuse("is no index");
  if (head.version != version)
    refuse("is an index of version " + std::to_string(head.version) + ", this program reads " +
           std::to_string(version));
  if (head.bytes > most_directory || head.place > reader.size() || head.bytes != reader.size() - head.place)
    refuse("the index is cut or damaged: its directory is not where its head says");
  std::string text(static_cast<std::size_t>(head.bytes), '\0');
  const auto bytes = std::as_writable_bytes(std::span(text));
  if (!reader.read(head.place, bytes) || digest_of(bytes) != std::string(head.digest.data(), head.digest.size()))
    refuse("the index is damaged: its directory is not what was written");
  try {
    content_->parse(Json::parse(text), head.place);
  } catch (const std::exception& error) {
    refuse(std::string("the index is damaged: ") + error.what());
  }
  if (content_->names.empty()) refuse("the index holds no video");
}

FeatureIndex::~FeatureIndex() = default;

const std::vector<std::string>& FeatureIndex::names() const { return content_->names; }
const std::vector<Unreadable>& FeatureIndex::unreadable() const { return content_->unreadable; }
const IndexOrigin& FeatureIndex::origin() const { return content_->origin; }

std::vector<Unreadable> FeatureIndex::damaged() const {
  std::vector<Unreadable> all;
  for (std::size_t i = 0; i < content_->rows.size(); ++i)
    if (!content_->rows[i].damage.empty()) all.push_back({content_->names[i], content_->rows[i].damage});
  return all;
}

at::Tensor FeatureIndex::grids(std::int64_t first, std::int64_t last) const {
  std::vector<std::int64_t> shape{last - first};
  shape.insert(shape.end(), content_->shape.begin(), content_->shape.end());
  const auto grids = at::empty(shape, content_->type);
  auto* to = static_cast<std::byte*>(grids.mutable_data_ptr());
  for (auto video = first; video < last; ++video) {
    const auto at = static_cast<std::size_t>(video);
    const auto& part = content_->rows.at(at).grid;
    content_->fetch(part, {to, static_cast<std::size_t>(part.bytes)}, file_, content_->names[at]);
    to += part.bytes;
  }
  return grids;
}

std::string FeatureIndex::picture(std::int64_t video) const {
  const auto at = static_cast<std::size_t>(video);
  const auto& part = content_->rows.at(at).picture;
  std::string jpeg(static_cast<std::size_t>(part.bytes), '\0');
  content_->fetch(part, std::as_writable_bytes(std::span(jpeg)), file_, content_->names[at]);
  return jpeg;
}

std::optional<IndexEntry> FeatureIndex::find(const std::string& name, const FileStamp& stamp) const {
  const auto found = content_->by_name.find(name);
  if (found == content_->by_name.end()) return std::nullopt;
  const auto& row = content_->rows[found->second];
  if (row.stamp != stamp) return std::nullopt;
  const auto video = static_cast<std::int64_t>(found->second);
  return IndexEntry{name, stamp, row.damage, grids(video, video + 1)[0], picture(video)};
}

}  // namespace clipbert::eval
