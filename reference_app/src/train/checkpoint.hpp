/// The weights that a run keeps, in ckpt/. A kill at any instant leaves what stood there before.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/tensor.hpp"

namespace clipbert::train {

/// Weights by name, as files hold them.
using ModelState = std::map<std::string, at::Tensor>;

/// `<output_dir>/ckpt/model_step_N.pt`: fp32 under the original's names, as torch.save writes a state dict.
class ModelFiles {
 public:
  /// `keep`: how many of the newest stay, besides the best.
  explicit ModelFiles(const std::filesystem::path& output_dir, std::int64_t keep = 3);

  /// Writes the weights of a step and removes files that are neither new nor best. -> the file
  std::filesystem::path save(std::int64_t step, const ModelState& model);
  /// Points `ckpt/best` at the file of a step.
  /// throws  content_error if that step was not saved
  void mark_best(std::int64_t step);
  /// Steps with a file, ascending.
  [[nodiscard]] std::vector<std::int64_t> steps() const;
  /// The step that `ckpt/best` points to, if any.
  [[nodiscard]] std::optional<std::int64_t> best() const;
  /// The file of a step.
  [[nodiscard]] std::filesystem::path file_of(std::int64_t step) const;

 private:
  void prune() const;

  std::filesystem::path folder_;
  std::int64_t keep_;
};

/// A tensor of a file as LibTorch's; it keeps the bytes, which are not copied.
[[nodiscard]] at::Tensor to_torch(io::Tensor tensor);

/// Reads weights.
/// throws  content_error naming the file
[[nodiscard]] ModelState read_model(const std::filesystem::path& file);

/// Bytes of the files in `<output_dir>/ckpt` and `<output_dir>/restore`.
[[nodiscard]] std::int64_t bytes_in_use(const std::filesystem::path& output_dir);

/// throws  content_error if the disk of `folder` has less than `bytes` left
void expect_space(const std::filesystem::path& folder, std::int64_t bytes);

}  // namespace clipbert::train
