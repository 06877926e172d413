/// PyTorch's files: the zip form of torch.save (since 1.6), the older form of one pickle after another, and plain
/// pickles of numpy arrays, which detectron2 keeps its weights in.
/// source  PyTorch torch/serialization.py
#pragma once
#include <filesystem>

#include "io/tensor.hpp"
#include "io/value.hpp"

namespace clipbert::io {

/// Reads the objects; the tensors' bytes stay in the file until dense() asks for them.
/// throws  content_error with the file, what is wrong and what to do
[[nodiscard]] Value read_torch(const std::filesystem::path& file);

/// Writes a state dict as torch.save does: an OrderedDict in a zip file, which torch.load(weights_only=True) reads.
/// Atomic; equal input gives equal bytes.
/// throws  content_error if a tensor's bytes do not fit its shape, or the file cannot be written
void write_torch(const std::filesystem::path& file, const TensorViews& tensors);

}  // namespace clipbert::io
