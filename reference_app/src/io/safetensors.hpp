/// The safetensors format: an 8-byte length, a JSON header, the tensors' bytes.
/// source  github.com/huggingface/safetensors, README "Format"
#pragma once
#include <filesystem>
#include <map>
#include <string>

#include "io/tensor.hpp"

namespace clipbert::io {

using Metadata = std::map<std::string, std::string>;

struct TensorFile {
  Tensors tensors;
  Metadata metadata;
};

/// Reads a whole file. Nothing in it is trusted: lengths, offsets, shapes, overlaps and gaps are checked before any
/// use.
/// throws  content_error that names the file and, where there is one, the tensor
[[nodiscard]] TensorFile read_safetensors(const std::filesystem::path& file);

/// Writes atomically; equal input gives equal bytes: wide elements first, then by name, the header padded to 8 bytes.
/// throws  content_error if a tensor's bytes do not fit its shape, or the file cannot be written
void write_safetensors(const std::filesystem::path& file, const TensorViews& tensors, const Metadata& metadata = {});
void write_safetensors(const std::filesystem::path& file, const Tensors& tensors, const Metadata& metadata = {});

}  // namespace clipbert::io
