#include "io/torch_file.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "config/errors.hpp"
#include "io/pickle.hpp"
#include "io/zip_archive.hpp"

namespace clipbert::io {
namespace {

constexpr std::string_view magic_number = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
constexpr std::string_view convert =
    "; convert it where PyTorch is: python3 -c \"import torch; torch.save({k: v for k, v in torch.load('IN', "
    "map_location='cpu').items()}, 'OUT')\"";

[[noreturn]] void refuse(const std::string& file, const std::string& what) { throw content_error(file + ": " + what); }

/// Tensors of a file may show the same bytes several times, as tied weights do, but not for ever.
PickleLimits limits_of(std::uint64_t pickle_bytes, std::uint64_t file_bytes) {
  return {.bytes = pickle_bytes, .tensors = 4 * file_bytes + (std::uint64_t{1} << 24)};
}

// ---- the zip form

class ZipStorage final : public Storage {
 public:
  ZipStorage(std::shared_ptr<const ZipReader> archive, std::string name)
      : archive_(std::move(archive)), name_(std::move(name)) {}
  [[nodiscard]] std::uint64_t size() const override { return archive_->sizes().at(name_); }
  [[nodiscard]] std::vector<std::byte> read() const override { return archive_->read(name_); }

 private:
  std::shared_ptr<const ZipReader> archive_;
  std::string name_;
};

std::string text_in(const ZipReader& archive, const std::string& entry) {
  const auto bytes = archive.read(entry);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Value read_zip(const std::filesystem::path& path) {
  const auto file = path.string();
  const auto archive = std::make_shared<const ZipReader>(path);
  constexpr std::string_view object = "/data.pkl";
  std::string root;
  for (const auto& [name, size] : archive->sizes()) {
    if (!name.ends_with(object)) continue;
    if (!root.empty()) refuse(file, "the zip archive holds more than one data.pkl");
    root = name.substr(0, name.size() - object.size());
  }
  if (root.empty()) refuse(file, "a zip archive, but not of PyTorch: it holds no data.pkl");
  if (std::ranges::any_of(root, [](unsigned char c) { return c < ' ' || c == 127; }))
    refuse(file, "the zip archive has a name with control characters");
  if (archive->sizes().contains(root + "/constants.pkl"))
    refuse(file,
           "a TorchScript program; save its weights in Python with torch.save(torch.jit.load('IN').state_dict(), "
           "'OUT')");
  const auto order = root + "/byteorder";
  if (archive->sizes().contains(order) && text_in(*archive, order) == "big")
    refuse(file, "was written by a big-endian machine; load and save it with PyTorch on this one");

  std::istringstream in(text_in(*archive, root + std::string(object)));
  std::map<std::string, std::shared_ptr<const Storage>> storages;
  const FindStorage find = [&](const std::string& key, std::uint64_t bytes) {
    const auto name = root + "/data/" + key;
    const auto entry = archive->sizes().find(name);
    if (entry == archive->sizes().end()) refuse(file, "lacks the storage " + name);
    if (entry->second != bytes)
      refuse(file, "storage " + name + " has " + std::to_string(entry->second) + " bytes, its tensors say " +
                       std::to_string(bytes));
    auto& storage = storages[key];
    if (storage == nullptr) storage = std::make_shared<const ZipStorage>(archive, name);
    return storage;
  };
  return unpickle(in, file, limits_of(in.str().size(), std::filesystem::file_size(path)), find);
}

// ---- the older form: magic number, version, machine, objects, keys of storages, storages

class FileStorage final : public Storage {
 public:
  FileStorage(std::string file, std::uint64_t size) : file_(std::move(file)), size_(size) {}
  [[nodiscard]] std::uint64_t size() const override { return size_; }
  [[nodiscard]] std::vector<std::byte> read() const override {
    std::vector<std::byte> bytes(static_cast<std::size_t>(size_));
    std::ifstream in(file_, std::ios::binary);
    in.seekg(static_cast<std::streamoff>(place.value_or(0)));
    in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size_));
    if (!place || !in) refuse(file_, "a storage cannot be read to its end");
    return bytes;
  }

  std::optional<std::uint64_t> place;  ///< known once the objects have been read

 private:
  std::string file_;
  std::uint64_t size_;
};

using FileStorages = std::map<std::string, std::shared_ptr<FileStorage>>;

/// Each storage: the count of its elements in 8 bytes, then the elements.
void find_places(std::ifstream& in, const std::string& file, std::uint64_t size, const Value& keys,
                 const FileStorages& storages) {
  auto at = static_cast<std::uint64_t>(in.tellg());
  for (const auto& key : keys.items()) {
    const auto known = key.text() == nullptr ? storages.end() : storages.find(*key.text());
    if (known == storages.end()) refuse(file, "holds a storage that none of its tensors names");
    if (known->second->place) refuse(file, "holds the storage " + *key.text() + " twice");
    std::uint64_t count = 0;
    const std::uint64_t bytes = known->second->size();
    if (size - at < sizeof(count) || size - at - sizeof(count) < bytes)
      refuse(file, "is cut inside storage " + *key.text() + "; take another copy");
    in.seekg(static_cast<std::streamoff>(at));
    in.read(reinterpret_cast<char*>(&count), sizeof(count));
    if (!in || (count == 0) != (bytes == 0) || (count > 0 && (bytes % count != 0 || bytes / count > 16)))
      refuse(file, "storage " + *key.text() + " has another size than its tensors say");
    known->second->place = at + sizeof(count);
    at += sizeof(count) + bytes;
  }
  for (const auto& [key, storage] : storages)
    if (!storage->place) refuse(file, "lacks the storage " + key);
}

Value read_pickles(const std::filesystem::path& path) {
  const auto file = path.string();
  const std::uint64_t size = std::filesystem::file_size(path);
  std::ifstream in(path, std::ios::binary);
  FileStorages storages;
  const FindStorage find = [&](const std::string& key, std::uint64_t bytes) {
    auto& storage = storages[key];
    if (storage == nullptr) {
      if (bytes > size) refuse(file, "storage " + key + " is larger than the file; the file is cut or damaged");
      storage = std::make_shared<FileStorage>(file, bytes);
    }
    if (storage->size() != bytes) refuse(file, "tensors say different sizes of the storage " + key);
    return storage;
  };
  const auto next = [&](const FindStorage& storage) {
    const auto at = static_cast<std::uint64_t>(in.tellg());
    return unpickle(in, file, limits_of(size - at, size), storage);
  };
  std::string start(magic_number.size(), '\0');
  in.read(start.data(), static_cast<std::streamsize>(start.size()));
  if (!in || start != magic_number) {  // a plain pickle
    in.clear();
    in.seekg(0);
    return next(nullptr);
  }
  if (next(nullptr).as_int() != 1001)
    refuse(file, "is of a version of PyTorch's format that is not read" + std::string(convert));
  const auto machine = next(nullptr);
  const auto* order = machine.find("little_endian");
  if (order != nullptr && order->as_bool() == false)
    refuse(file, "was written by a big-endian machine; load and save it with PyTorch on this one");
  auto root = next(find);
  const auto keys = next(nullptr);
  find_places(in, file, size, keys, storages);
  return root;
}

// ---- writing

std::string_view storage_class(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "DoubleStorage";
    case DType::f32:
      return "FloatStorage";
    case DType::f16:
      return "HalfStorage";
    case DType::bf16:
      return "BFloat16Storage";
    case DType::i64:
      return "LongStorage";
    case DType::i32:
      return "IntStorage";
    case DType::i16:
      return "ShortStorage";
    case DType::i8:
      return "CharStorage";
    case DType::u8:
      return "ByteStorage";
    case DType::boolean:
      return "BoolStorage";
  }
  return {};
}

/// The opcodes that torch.save writes for a state dict, without its memo.
class Pickle {
 public:
  Pickle()
      : out_(
            "\x80\x02"
            "ccollections\nOrderedDict\n)R(") {}

  void add(const std::string& name, const TensorView& tensor, const std::string& key) {
    text(name);
    out_ += "ctorch._utils\n_rebuild_tensor_v2\n((";
    text("storage");
    out_ += "ctorch\n" + std::string(storage_class(tensor.dtype)) + "\n";
    text(key);
    text("cpu");
    const auto count = count_of(tensor.shape);
    integer(count);
    out_ += "tQ";
    integer(0);
    std::vector<std::int64_t> strides(tensor.shape.size());
    std::int64_t step = 1;
    for (std::size_t axis = strides.size(); axis-- > 0; step *= std::max<std::int64_t>(tensor.shape[axis], 1))
      strides[axis] = step;
    tuple(tensor.shape);
    tuple(strides);
    out_ +=
        "\x89"
        "ccollections\nOrderedDict\n)RtR";
  }
  std::string take() { return std::move(out_ += "u."); }

 private:
  template <class T>
  void raw(T value) {
    std::array<char, sizeof(T)> bytes;
    std::memcpy(bytes.data(), &value, sizeof(T));
    out_.append(bytes.data(), bytes.size());
  }
  void text(const std::string& value) {
    out_ += 'X';
    raw(static_cast<std::uint32_t>(value.size()));
    out_ += value;
  }
  void integer(std::int64_t value) {
    if (value <= std::numeric_limits<std::int32_t>::max()) {
      out_ += 'J';
      raw(static_cast<std::int32_t>(value));
    } else {
      out_ += "\x8a\x08";
      raw(value);
    }
  }
  void tuple(const std::vector<std::int64_t>& values) {
    out_ += '(';
    for (const auto value : values) integer(value);
    out_ += 't';
  }

  std::string out_;
};

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

bool begins_with(const std::filesystem::path& file, std::string_view start) {
  std::string found(start.size(), '\0');
  std::ifstream in(file, std::ios::binary);
  in.read(found.data(), static_cast<std::streamsize>(found.size()));
  return in && found == start;
}

}  // namespace

Value read_torch(const std::filesystem::path& file) {
  return begins_with(file, "PK") ? read_zip(file) : read_pickles(file);
}

void write_torch(const std::filesystem::path& file, const TensorViews& tensors) {
  Pickle pickle;
  std::vector<ZipEntry> entries(1);
  for (const auto& [name, tensor] : tensors) {
    if (static_cast<std::uint64_t>(count_of(tensor.shape)) * size_of(tensor.dtype) != tensor.bytes.size())
      refuse(file.string(), "tensor " + name + " does not fit its shape; it is not written");
    const auto key = std::to_string(entries.size() - 1);
    pickle.add(name, tensor, key);
    entries.push_back({"archive/data/" + key, tensor.bytes, true});
  }
  const auto object = pickle.take();
  entries[0] = {"archive/data.pkl", bytes_of(object)};
  entries.insert(entries.begin() + 1, {"archive/byteorder", bytes_of("little")});
  entries.push_back({"archive/version", bytes_of("3\n")});
  write_zip(file, entries);
}

}  // namespace clipbert::io
