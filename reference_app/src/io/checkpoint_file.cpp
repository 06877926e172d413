#include "io/checkpoint_file.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "config/errors.hpp"
#include "io/safetensors.hpp"
#include "io/torch_file.hpp"

namespace clipbert::io {
namespace {

constexpr std::array<std::string_view, 3> wrappers{"model_state_dict", "state_dict", "model"};
// one dict may stand in several places, and a small file so ask for names without end
constexpr std::size_t most_visits = 1 << 22, most_tensors = 1 << 17, longest_name = 1000;

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& what) {
  throw content_error(file.string() + ": " + what);
}

/// The whole of a tensor that has been read.
class HeldStorage final : public Storage {
 public:
  explicit HeldStorage(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  [[nodiscard]] std::uint64_t size() const override { return bytes_.size(); }
  [[nodiscard]] std::vector<std::byte> read() const override { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

Value as_value(TensorFile read) {
  Value::Dict entries;
  for (auto& [name, tensor] : read.tensors) {
    StoredTensor stored{tensor.dtype, tensor.shape, std::vector<std::int64_t>(tensor.shape.size()), 0, nullptr};
    std::int64_t step = 1;
    for (std::size_t axis = stored.shape.size(); axis-- > 0; step *= std::max<std::int64_t>(stored.shape[axis], 1))
      stored.strides[axis] = step;
    stored.storage = std::make_shared<const HeldStorage>(std::move(tensor.bytes));
    entries.emplace_back(Value(name), Value(std::move(stored)));
  }
  return Value(std::move(entries));
}

bool printable(std::string_view name) {
  return std::ranges::none_of(name, [](unsigned char c) { return c < ' ' || c == 127; });
}

/// All tensors of a dict and of dicts in it, and what was passed over on the way.
struct Found {
  const std::filesystem::path& file;
  std::map<std::string, const StoredTensor*> tensors = {};
  std::set<std::string> passed_over = {};
  std::size_t visits = 0;

  void walk(const Value& value, const std::string& name) {
    if (++visits > most_visits || tensors.size() > most_tensors)
      refuse(file, "holds the same dict or list again and again");
    if (const auto* tensor = value.tensor()) tensors[name] = tensor;
    if (const auto* type = value.opaque()) passed_over.insert(*type);
    for (const auto& [key, inner] : value.entries()) {
      const auto* text = key.text();
      if (text == nullptr) continue;
      if (name.size() + text->size() > longest_name || !printable(*text))
        refuse(file, "the name of a tensor or key is no name (too long, or control characters)");
      walk(inner, name.empty() ? *text : name + "." + *text);
    }
  }
};

bool holds_tensors(const Value& value, std::size_t& visits, std::size_t level = 0) {
  for (const auto& [key, inner] : value.entries()) {
    if (++visits > most_visits) return false;
    if (inner.tensor() != nullptr || (level < 4 && holds_tensors(inner, visits, level + 1))) return true;
  }
  return false;
}

const Value* wrapped(const Value& value, std::string& under) {
  for (const auto& key : wrappers) {
    const auto* inner = value.find(key);
    std::size_t visits = 0;
    if (inner == nullptr || !holds_tensors(*inner, visits)) continue;
    under += (under.empty() ? "" : ".") + std::string(key);
    return inner;
  }
  return nullptr;
}

/// Reads each storage once, whether one tensor or several show it.
Tensors read_all(const std::filesystem::path& file, const std::map<std::string, const StoredTensor*>& found) {
  std::uint64_t left = 4 * std::filesystem::file_size(file) + (std::uint64_t{1} << 24);
  std::map<const Storage*, std::vector<std::pair<std::string_view, const StoredTensor*>>> users;
  for (const auto& [name, tensor] : found) {
    const auto bytes = static_cast<std::uint64_t>(count_of(tensor->shape)) * size_of(tensor->dtype);
    if (bytes > left)
      refuse(file, "its tensors show the same bytes again and again: together they are many times the file");
    left -= bytes;
    users[tensor->storage.get()].emplace_back(name, tensor);
  }
  Tensors out;
  for (const auto& [storage, tensors] : users) {
    auto bytes = storage->read();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const auto& [name, tensor] = tensors[i];
      out.emplace(name, i + 1 < tensors.size() ? dense(*tensor, bytes) : dense(*tensor, std::move(bytes)));
    }
  }
  return out;
}

bool is_torch_name(const std::filesystem::path& file) {
  const auto extension = file.extension();
  return extension == ".pt" || extension == ".pth" || extension == ".bin";
}

std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (std::size_t i = 0; i < std::min<std::size_t>(names.size(), 6); ++i) out += (i == 0 ? "" : ", ") + names[i];
  return names.size() > 6 ? out + ", ..." : out;
}

}  // namespace

Value read_checkpoint(const std::filesystem::path& file) {
  std::error_code error;
  if (std::filesystem::exists(file, error) && !std::filesystem::is_regular_file(file, error))
    refuse(file, "no regular file (a folder or a pipe); give a file");  // a pipe would wait for ever
  std::ifstream in(file, std::ios::binary);
  if (!in) refuse(file, "cannot be read; check the path");
  std::array<char, 512> start{};
  in.read(start.data(), start.size());
  const std::string_view head(start.data(), static_cast<std::size_t>(in.gcount()));
  if (head.empty()) refuse(file, "is empty; take another copy");
  if (head.starts_with("PK") || head.starts_with("\x80")) {
    // the length of a safetensors header may begin with 0x80, but '{' follows it
    if (!(head.size() > 8 && head[8] == '{' && head[7] == 0)) return read_torch(file);
  }
  if (head.size() > 262 && head.substr(257, 5) == "ustar")
    refuse(file, "a file of PyTorch 0.1; load and save it with torch in Python to get the form of today");
  if (head.starts_with("version https://git-lfs"))
    refuse(file, "only names the weights (Git LFS); fetch the file itself: git lfs pull");
  if (head.starts_with("\x89HDF"))
    refuse(file, "an HDF5 file; weights are read from .pt, .pth, .bin, .pkl and .safetensors");
  return as_value(read_safetensors(file));
}

Weights weights_in(const Value& checkpoint, const std::filesystem::path& file) {
  Weights out;
  const Value* at = &checkpoint;
  for (int level = 0; level < 4; ++level) {
    const auto* inner = wrapped(*at, out.under);
    if (inner == nullptr) break;
    Found beside{file};
    for (const auto& [key, value] : at->entries()) {
      if (&value == inner || key.text() == nullptr) continue;
      if (printable(*key.text()) && key.text()->size() < 100) out.beside.push_back(*key.text());
      if (const auto* type = value.opaque()) beside.passed_over.insert(*type);
    }
    out.passed_over.insert(out.passed_over.end(), beside.passed_over.begin(), beside.passed_over.end());
    at = inner;
  }
  Found found{file};
  found.walk(*at, "");
  out.passed_over.insert(out.passed_over.end(), found.passed_over.begin(), found.passed_over.end());
  if (found.tensors.empty() || at->tensor() != nullptr) {
    refuse(file,
           "holds no weights: a dict of tensors is wanted, at its top or under model, state_dict or model_state_dict" +
               (out.passed_over.empty()
                    ? std::string()
                    : "; it holds " + listed(out.passed_over) + ", which is not read: save its state_dict() instead"));
  }
  out.tensors = read_all(file, found.tensors);
  return out;
}

Weights read_weights(const std::filesystem::path& file) { return weights_in(read_checkpoint(file), file); }

std::string Weights::remarks() const {
  std::string out;
  const auto say = [&](const std::string& what) { out += (out.empty() ? "" : "; ") + what; };
  if (!under.empty()) say("weights are under \"" + under + "\"");
  if (!beside.empty()) say("left alone: " + listed(beside));
  if (!passed_over.empty()) say("objects of these classes are not read: " + listed(passed_over));
  return out;
}

void check_writable_format(const std::filesystem::path& file) {
  const auto extension = file.extension();
  if (extension == ".safetensors" || is_torch_name(file)) return;
  throw usage_error(file.string() + ": weights are written as .pt, .pth, .bin (PyTorch) or .safetensors");
}

void write_weights(const std::filesystem::path& file, const TensorViews& tensors) {
  check_writable_format(file);
  if (is_torch_name(file)) return write_torch(file, tensors);
  write_safetensors(file, tensors, {{"format", "pt"}});
}

}  // namespace clipbert::io
