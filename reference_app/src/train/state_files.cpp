#include "train/state_files.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <fstream>
#include <span>
#include <utility>

#include "config/errors.hpp"
#include "io/safetensors.hpp"

namespace fs = std::filesystem;

namespace clipbert::train {
namespace {

constexpr std::string_view state_format = "clipbert training state 1";
constexpr std::array<std::string_view, 2> state_names{"state_a.safetensors", "state_b.safetensors"};

/// Types that a file has no word for are stored as the bytes that they are, and named beside.
io::DType dtype_of(std::string_view name) {
  if (const auto type = io::dtype_named(name)) return *type;
  if (name.starts_with("F8_")) return io::DType::u8;
  throw content_error("a tensor of type " + std::string(name) + " cannot be stored");
}

/// FNV-1a over 8-byte words: finds damage, not malice.
class Checksum {
 public:
  void add(std::span<const std::byte> bytes) {
    std::size_t i = 0;
    for (; i + 8 <= bytes.size(); i += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + i, 8);
      mix(word);
    }
    for (; i < bytes.size(); ++i) mix(static_cast<std::uint64_t>(bytes[i]) + 1);
    mix(bytes.size());
  }
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  [[nodiscard]] std::string text() const { return std::to_string(hash_); }

 private:
  void mix(std::uint64_t word) {
    hash_ = (hash_ ^ word) * 0x100000001b3ULL;
    hash_ ^= hash_ >> 29;  // without it a word's high bits never reach the low ones
  }
  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
};

std::string checksum_of(const TrainingState& state, std::string_view meta) {
  Checksum sum;
  sum.add(meta);
  for (const auto& [name, tensor] : state.tensors) {
    sum.add(name);
    sum.add(tensor.type);
    sum.add(tensor.bytes);
  }
  return sum.text();
}

std::optional<std::int64_t> number_of(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

}  // namespace

void write_state(const fs::path& file, const TrainingState& state) {
  std::map<std::string, io::TensorView> views;
  nlohmann::json types = nlohmann::json::object();
  for (const auto& [name, t] : state.tensors) {
    views[name] = {dtype_of(t.type), t.shape, t.bytes};
    if (!io::dtype_named(t.type)) types[name] = t.type;
  }
  const std::string meta = state.meta.dump();
  io::write_safetensors(file, views,
                        {{"format", std::string(state_format)},
                         {"step", std::to_string(state.step)},
                         {"meta", meta},
                         {"types", types.dump()},
                         {"checksum", checksum_of(state, meta)}});
}

TrainingState read_state(const fs::path& file) {
  io::TensorFile read = io::read_safetensors(file);
  const auto entry = [&](const char* key) -> const std::string& {
    const auto found = read.metadata.find(key);
    if (found == read.metadata.end()) throw content_error(file.string() + " is no state of a training run");
    return found->second;
  };
  if (entry("format") != state_format) throw content_error(file.string() + " is no state that this version can read");
  TrainingState state;
  state.step = number_of(entry("step")).value_or(-1);
  for (auto& [name, t] : read.tensors) {
    state.tensors[name] = {std::string(io::name_of(t.dtype)), std::move(t.shape), std::move(t.bytes)};
  }
  if (const auto types = read.metadata.find("types"); types != read.metadata.end()) {
    const auto named = nlohmann::json::parse(types->second, nullptr, false);
    for (auto& [name, t] : state.tensors) {
      if (named.is_object() && named.contains(name) && named[name].is_string()) t.type = named[name];
    }
  }
  if (state.step < 0 || checksum_of(state, entry("meta")) != entry("checksum")) {
    throw content_error(file.string() + " is damaged: its checksum differs");
  }
  state.meta = nlohmann::json::parse(entry("meta"));
  return state;
}

bool is_own_state(const fs::path& file) {  // safetensors: a length, then JSON; PyTorch's files start otherwise
  std::ifstream in(file, std::ios::binary);
  std::array<char, 9> head{};
  return in.read(head.data(), head.size()) && head[8] == '{';
}

StateFiles::StateFiles(const fs::path& output_dir) : folder_(output_dir / "restore") {}

void StateFiles::save(const TrainingState& state) {
  fs::create_directories(folder_);
  if (!next_) {  // the older one, or the one that cannot be read; known once, then they take turns
    std::array<std::int64_t, 2> found{-1, -1};
    for (const auto& [file, step] : steps()) found[file.filename() == state_names[0] ? 0 : 1] = step;
    next_ = found[0] <= found[1] ? 0 : 1;
  }
  write_state(folder_ / state_names[*next_], state);
  next_ = 1 - *next_;
}

std::vector<std::pair<fs::path, std::int64_t>> StateFiles::steps() const {
  std::vector<std::pair<fs::path, std::int64_t>> out;
  for (const std::string_view name : state_names) {
    try {
      out.emplace_back(folder_ / name, read_state(folder_ / name).step);
    } catch (const content_error&) {  // missing or damaged: not a sound one
    }
  }
  return out;
}

std::optional<TrainingState> StateFiles::load(const Remark& remark) const {
  std::optional<TrainingState> newest;
  std::string trouble;
  for (const std::string_view name : state_names) {
    const fs::path file = folder_ / name;
    if (!fs::exists(file)) continue;
    try {
      TrainingState state = read_state(file);
      if (!newest || state.step > newest->step) newest = std::move(state);
    } catch (const std::exception& e) {
      trouble = e.what();
      if (remark) remark("a damaged state is passed over: " + trouble);
    }
  }
  if (!newest && !trouble.empty()) {
    throw content_error(trouble + "; no other state is left, so start anew with --resume never");
  }
  return newest;
}

std::optional<FoundState> find_state(const std::string& resume, const fs::path& output_dir, const Remark& remark) {
  if (resume == "never") return std::nullopt;
  const bool by_path = resume != "auto" && resume != "required";
  const fs::path path = by_path ? fs::path(resume) : output_dir;
  if (by_path && !fs::exists(path)) throw usage_error("resume: " + fs::absolute(path).string() + " does not exist");
  if (by_path && !fs::is_directory(path)) {
    const fs::path folder = fs::absolute(path).lexically_normal().parent_path();
    return FoundState{read_state(path), folder.filename() == "restore" ? folder.parent_path() : fs::path()};
  }
  auto state = StateFiles(path).load(remark);
  if (state) return FoundState{std::move(*state), path};
  if (resume == "auto") return std::nullopt;
  throw usage_error((by_path ? "resume: " : "resume is required, but ") + (path / "restore").string() +
                    " holds no state");
}

}  // namespace clipbert::train
