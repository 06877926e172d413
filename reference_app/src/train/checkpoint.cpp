#include "train/checkpoint.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <span>
#include <utility>

#include "config/errors.hpp"
#include "io/safetensors.hpp"

namespace fs = std::filesystem;

namespace clipbert::train {
namespace {

constexpr std::string_view state_format = "clipbert training state 1";
constexpr std::array<std::string_view, 2> state_names{"state_a.safetensors", "state_b.safetensors"};

io::DType dtype_of(std::string_view name) {
  using enum io::DType;
  for (const io::DType d : {f64, f32, f16, bf16, i64, i32, i16, i8, u8, boolean}) {
    if (io::name_of(d) == name) return d;
  }
  throw content_error("a tensor of type " + std::string(name) + " cannot be stored");
}

constexpr std::array<std::pair<at::ScalarType, io::DType>, 10> types{{{at::kDouble, io::DType::f64},
                                                                      {at::kFloat, io::DType::f32},
                                                                      {at::kHalf, io::DType::f16},
                                                                      {at::kBFloat16, io::DType::bf16},
                                                                      {at::kLong, io::DType::i64},
                                                                      {at::kInt, io::DType::i32},
                                                                      {at::kShort, io::DType::i16},
                                                                      {at::kChar, io::DType::i8},
                                                                      {at::kByte, io::DType::u8},
                                                                      {at::kBool, io::DType::boolean}}};

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

/// The step in a file name model_step_N.safetensors.
std::optional<std::int64_t> step_of(const fs::path& file) {
  const std::string stem = file.stem().string();
  constexpr std::string_view prefix = "model_step_";
  if (file.extension() != ".safetensors" || !stem.starts_with(prefix)) return std::nullopt;
  return number_of(std::string_view(stem).substr(prefix.size()));
}

}  // namespace

// ---- weights
// ---------------------------------------------------------------------------------------------------------

ModelFiles::ModelFiles(const fs::path& output_dir, std::int64_t keep) : folder_(output_dir / "ckpt"), keep_(keep) {}

fs::path ModelFiles::file_of(std::int64_t step) const {
  return folder_ / ("model_step_" + std::to_string(step) + ".safetensors");
}

fs::path ModelFiles::save(std::int64_t step, const ModelState& model) {
  fs::create_directories(folder_);
  std::map<std::string, at::Tensor> dense;  // keeps the bytes alive that the views show
  std::map<std::string, io::TensorView> views;
  for (const auto& [name, tensor] : model) {
    const at::Tensor& t = dense[name] = tensor.detach().contiguous();
    const auto* found =
        std::find_if(types.begin(), types.end(), [&](const auto& pair) { return pair.first == t.scalar_type(); });
    if (found == types.end()) throw content_error("\"" + name + "\" has a type that no weights file holds");
    views[name] = {found->second, t.sizes().vec(), {static_cast<const std::byte*>(t.const_data_ptr()), t.nbytes()}};
  }
  const fs::path file = file_of(step);
  io::write_safetensors(file, views, {{"format", "pt"}, {"step", std::to_string(step)}});
  prune();
  return file;
}

std::vector<std::int64_t> ModelFiles::steps() const {
  std::vector<std::int64_t> out;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_, ignored)) {
    if (const auto step = step_of(entry.path()); step && !entry.is_symlink()) out.push_back(*step);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::optional<std::int64_t> ModelFiles::best() const {
  std::error_code error;
  const fs::path target = fs::read_symlink(folder_ / "best", error);
  return error ? std::nullopt : step_of(target);
}

void ModelFiles::mark_best(std::int64_t step) {
  const fs::path file = file_of(step);
  if (!fs::exists(file)) throw content_error("no weights of step " + std::to_string(step) + " in " + folder_.string());
  const fs::path link = folder_ / "best", beside = folder_ / "best.tmp";
  fs::remove(beside);
  fs::create_symlink(file.filename(), beside);
  fs::rename(beside, link);
  prune();
}

void ModelFiles::prune() const {
  const auto all = steps();
  const auto best_step = best();
  const auto keep = static_cast<std::size_t>(std::max<std::int64_t>(keep_, 1));
  for (std::size_t i = 0; i + keep < all.size(); ++i) {
    if (all[i] != best_step) fs::remove(file_of(all[i]));
  }
}

ModelState read_model(const fs::path& file) {
  const io::TensorFile read = io::read_safetensors(file);
  ModelState out;
  for (const auto& [name, t] : read.tensors) {
    const auto* found =
        std::find_if(types.begin(), types.end(), [&](const auto& pair) { return pair.second == t.dtype; });
    at::Tensor copy = at::empty(t.shape, found->first);
    if (!t.bytes.empty()) std::memcpy(copy.mutable_data_ptr(), t.bytes.data(), t.bytes.size());
    out.emplace(name, std::move(copy));
  }
  return out;
}

// ---- states
// ----------------------------------------------------------------------------------------------------------

void write_state(const fs::path& file, const TrainingState& state) {
  std::map<std::string, io::TensorView> views;
  for (const auto& [name, t] : state.tensors) views[name] = {dtype_of(t.type), t.shape, t.bytes};
  const std::string meta = state.meta.dump();
  io::write_safetensors(file, views,
                        {{"format", std::string(state_format)},
                         {"step", std::to_string(state.step)},
                         {"meta", meta},
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
  if (state.step < 0 || checksum_of(state, entry("meta")) != entry("checksum")) {
    throw content_error(file.string() + " is damaged: its checksum differs");
  }
  state.meta = nlohmann::json::parse(entry("meta"));
  return state;
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

std::optional<TrainingState> find_state(const std::string& resume, const fs::path& output_dir, const Remark& remark) {
  if (resume == "never") return std::nullopt;
  if (resume == "auto" || resume == "required") {
    auto state = StateFiles(output_dir).load(remark);
    if (!state && resume == "required") {
      throw usage_error("resume is required, but " + (output_dir / "restore").string() + " holds no state");
    }
    return state;
  }
  const fs::path path = resume;
  if (!fs::exists(path)) throw usage_error("resume: " + fs::absolute(path).string() + " does not exist");
  if (!fs::is_directory(path)) return read_state(path);
  auto state = StateFiles(path).load(remark);
  if (!state) throw usage_error("resume: " + (path / "restore").string() + " holds no state");
  return state;
}

std::int64_t bytes_in_use(const fs::path& output_dir) {
  std::uintmax_t sum = 0;
  for (const char* part : {"ckpt", "restore"}) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(output_dir / part, error)) {
      if (entry.is_symlink(error) || !entry.is_regular_file(error)) continue;
      const auto size = entry.file_size(error);
      sum += error ? 0 : size;
    }
  }
  return static_cast<std::int64_t>(sum);
}

void expect_space(const fs::path& folder, std::int64_t bytes) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (error || bytes <= 0 || space.available >= static_cast<std::uintmax_t>(bytes)) return;
  throw content_error("the disk of " + folder.string() + " has " + std::to_string(space.available >> 20) +
                      " MiB left, checkpoints and states of this run take " + std::to_string(bytes >> 20) +
                      " MiB; free some, or lower keep_checkpoints");
}

}  // namespace clipbert::train
