/// Weights from any file that people have: PyTorch's forms, detectron2's pickles, safetensors; told apart by content.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "io/tensor.hpp"
#include "io/value.hpp"

namespace clipbert::io {

/// Reads the objects of a file. A safetensors file is a dict of its tensors.
/// throws  content_error with the file, what is wrong and what to do
[[nodiscard]] Value read_checkpoint(const std::filesystem::path& file);

/// The weights in a checkpoint.
struct Weights {
  Tensors tensors;                       ///< under the file's names
  std::string under;                     ///< the key that holds them: "model", "state_dict", ...; empty: the top level
  std::vector<std::string> beside;       ///< other keys of the levels above them, which were left alone
  std::vector<std::string> passed_over;  ///< classes of objects that were not read

  /// "its weights are under \"model\"; ..."; empty if there is nothing to say.
  [[nodiscard]] std::string remarks() const;
};

/// Finds the weights of a checkpoint under model_state_dict, state_dict or model, else at the top level, and reads
/// them. file    names the file in errors
/// throws  content_error if there are none
[[nodiscard]] Weights weights_in(const Value& checkpoint, const std::filesystem::path& file);

/// read_checkpoint() and weights_in().
[[nodiscard]] Weights read_weights(const std::filesystem::path& file);

/// throws  usage_error if write_weights() has no format for this name
void check_writable_format(const std::filesystem::path& file);

/// Writes weights in the format of the name's extension: .safetensors, or .pt, .pth and .bin for PyTorch's zip form.
/// throws  usage_error for another extension, content_error if the file cannot be written
void write_weights(const std::filesystem::path& file, const TensorViews& tensors);

}  // namespace clipbert::io
