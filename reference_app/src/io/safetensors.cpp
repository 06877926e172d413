#include "io/safetensors.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "config/errors.hpp"
#include "config/json.hpp"
#include "io/atomic_file.hpp"

namespace clipbert::io {
namespace {

constexpr std::uint64_t longest_header = 100'000'000;  // the reference reader's limit

/// Where a tensor's bytes stand behind the header.
struct Slot {
  std::string name;
  Tensor tensor;  // without bytes
  std::uint64_t begin = 0, end = 0;
};

class Header {
 public:
  Header(const std::string& file, std::string_view text, std::uint64_t data_size) : file_(file) {
    if (!text.starts_with('{')) fail("the header is not a JSON object");
    config::Json json;
    try {
      json = config::parse_json(text, file).root;
    } catch (const usage_error& e) {
      throw content_error(std::string(e.what()) + " (in the header)");
    }
    for (const auto& [name, entry] : json.items()) {
      if (name == "__metadata__")
        read_metadata(entry);
      else
        slots.push_back(read_slot(name, entry));
    }
    check_layout(data_size);
  }

  std::vector<Slot> slots;  ///< in the order of their bytes
  Metadata metadata;

 private:
  [[noreturn]] void fail(const std::string& what) const { throw content_error(file_ + ": " + what); }

  void read_metadata(const config::Json& entry) {
    if (!entry.is_object()) fail("__metadata__ is not an object");
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) fail("__metadata__." + key + " is not a text");
      metadata[key] = value.get<std::string>();
    }
  }

  Slot read_slot(const std::string& name, const config::Json& entry) const {
    const auto wrong = [&](const std::string& what) { fail("tensor " + name + ": " + what); };
    if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") || !entry.contains("shape") ||
        !entry.contains("data_offsets"))
      wrong("needs dtype, shape and data_offsets");
    Slot slot{.name = name, .tensor = {}};
    const auto& dtype = entry.at("dtype");
    const auto known = dtype.is_string() ? dtype_named(dtype.get<std::string>()) : std::nullopt;
    if (!known) wrong("dtype " + dtype.dump() + " is not known");
    slot.tensor.dtype = *known;
    const std::size_t element = size_of(*known);
    const auto number = [&](const config::Json& value, const char* what) {
      if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max())
        wrong(std::string(what) + " holds " + value.dump() + ", which is no size");
      return value.get<std::uint64_t>();
    };
    if (!entry.at("shape").is_array()) wrong("shape is not a list");
    for (const auto& size : entry.at("shape"))
      slot.tensor.shape.push_back(static_cast<std::int64_t>(number(size, "shape")));
    const auto& offsets = entry.at("data_offsets");
    if (!offsets.is_array() || offsets.size() != 2) wrong("data_offsets is not a pair");
    slot.begin = number(offsets[0], "data_offsets");
    slot.end = number(offsets[1], "data_offsets");
    std::uint64_t count = 0;
    try {
      count = static_cast<std::uint64_t>(count_of(slot.tensor.shape));
    } catch (const content_error& e) {
      wrong(e.what());
    }
    if (slot.begin > slot.end || count > std::numeric_limits<std::uint64_t>::max() / element ||
        slot.end - slot.begin != count * element)
      wrong("data_offsets do not fit shape and dtype");
    return slot;
  }

  void check_layout(std::uint64_t data_size) {
    std::ranges::sort(slots, {}, [](const Slot& s) { return std::pair(s.begin, s.end); });
    std::uint64_t at = 0;
    for (const auto& slot : slots) {
      if (slot.begin < at) fail("tensor " + slot.name + ": its bytes overlap another tensor's");
      if (slot.begin > at) fail("tensor " + slot.name + ": unused bytes stand before it");
      if (slot.end > data_size)
        fail("tensor " + slot.name + ": the data is shorter than the offsets say (" + std::to_string(data_size) +
             " bytes, " + std::to_string(slot.end) + " needed); the file is cut");
      at = slot.end;
    }
    if (at != data_size) fail(std::to_string(data_size - at) + " bytes behind the last tensor belong to none");
  }

  const std::string& file_;
};

}  // namespace

TensorFile read_safetensors(const std::filesystem::path& file) {
  const auto name = file.string();
  std::error_code error;
  if (std::filesystem::exists(file, error) && !std::filesystem::is_regular_file(file, error))
    throw content_error(name + ": no regular file (a folder or a pipe); give a file");  // a pipe would wait for ever
  std::ifstream in(file, std::ios::binary);
  const auto size = std::filesystem::file_size(file, error);
  if (!in || error) throw content_error(name + ": cannot be read; check the path");
  std::uint64_t length = 0;
  if (size < sizeof(length)) throw content_error(name + ": too short to be a safetensors file");
  in.read(reinterpret_cast<char*>(&length), sizeof(length));
  if (length > longest_header || length > size - sizeof(length))
    throw content_error(name + ": not a safetensors file, or cut inside its header");
  std::string text(length, '\0');
  in.read(text.data(), static_cast<std::streamsize>(length));
  Header header(name, text, size - sizeof(length) - length);

  TensorFile result;
  result.metadata = std::move(header.metadata);
  for (auto& slot : header.slots) {
    slot.tensor.bytes.resize(slot.end - slot.begin);
    in.read(reinterpret_cast<char*>(slot.tensor.bytes.data()), static_cast<std::streamsize>(slot.tensor.bytes.size()));
    if (!in) throw content_error(name + ": tensor " + slot.name + " cannot be read to its end");
    result.tensors.emplace(std::move(slot.name), std::move(slot.tensor));
  }
  return result;
}

void write_safetensors(const std::filesystem::path& file, const TensorViews& tensors, const Metadata& metadata) {
  std::vector<const std::pair<const std::string, TensorView>*> order;
  for (const auto& entry : tensors) order.push_back(&entry);
  std::ranges::stable_sort(order, std::greater{}, [](const auto* entry) { return size_of(entry->second.dtype); });

  auto header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t at = 0;
  for (const auto* entry : order) {
    const auto& [name, tensor] = *entry;
    if (name == "__metadata__" ||
        static_cast<std::uint64_t>(count_of(tensor.shape)) * size_of(tensor.dtype) != tensor.bytes.size())
      throw content_error(file.string() + ": tensor " + name + " does not fit its shape; it is not written");
    header[name] = {
        {"dtype", name_of(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {at, at + tensor.bytes.size()}}};
    at += tensor.bytes.size();
  }
  auto text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const std::uint64_t length = text.size();

  AtomicFile out(file);
  out.write(std::as_bytes(std::span(&length, 1)));
  out.write(text);
  for (const auto* entry : order) out.write(entry->second.bytes);
  out.commit();
}

void write_safetensors(const std::filesystem::path& file, const Tensors& tensors, const Metadata& metadata) {
  write_safetensors(file, views_of(tensors), metadata);
}

}  // namespace clipbert::io
