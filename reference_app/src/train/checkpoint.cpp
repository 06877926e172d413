#include "train/checkpoint.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <utility>

#include "config/errors.hpp"
#include "io/checkpoint_file.hpp"
#include "io/torch_file.hpp"

namespace fs = std::filesystem;

namespace clipbert::train {
namespace {

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

/// The step in a file name model_step_N.pt.
std::optional<std::int64_t> step_of(const fs::path& file) {
  const std::string stem = file.stem().string();
  constexpr std::string_view prefix = "model_step_";
  if (file.extension() != ".pt" || !stem.starts_with(prefix)) return std::nullopt;
  std::int64_t value = 0;
  const char *const from = stem.data() + prefix.size(), *const to = stem.data() + stem.size();
  const auto [end, error] = std::from_chars(from, to, value);
  return error == std::errc() && end == to && from != to ? std::optional(value) : std::nullopt;
}

}  // namespace

ModelFiles::ModelFiles(const fs::path& output_dir, std::int64_t keep) : folder_(output_dir / "ckpt"), keep_(keep) {}

fs::path ModelFiles::file_of(std::int64_t step) const {
  return folder_ / ("model_step_" + std::to_string(step) + ".pt");
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
  io::write_torch(file, views);
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

at::Tensor to_torch(io::Tensor tensor) {
  const auto* found =
      std::find_if(types.begin(), types.end(), [&](const auto& pair) { return pair.second == tensor.dtype; });
  auto* const bytes = new std::vector<std::byte>(std::move(tensor.bytes));  // the tensor's deleter owns them
  if (bytes->empty()) {
    delete bytes;
    return at::empty(tensor.shape, found->first);
  }
  return at::from_blob(
      bytes->data(), tensor.shape, [bytes](void*) { delete bytes; }, found->first);
}

ModelState read_model(const fs::path& file) {
  ModelState out;
  for (auto& [name, t] : io::read_weights(file).tensors) out.emplace(name, to_torch(std::move(t)));
  return out;
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
