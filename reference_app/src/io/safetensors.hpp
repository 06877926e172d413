/// The safetensors format: an 8-byte length, a JSON header, the tensors' bytes.
/// source  github.com/huggingface/safetensors, README "Format"
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace clipbert::io {

enum class DType { f64, f32, f16, bf16, i64, i32, i16, i8, u8, boolean };

/// Bytes of one element.
[[nodiscard]] std::size_t size_of(DType dtype);
/// The name in the file: F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL.
[[nodiscard]] std::string_view name_of(DType dtype);

/// A tensor's bytes, little endian, row-major.
struct Tensor {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;

  friend bool operator==(const Tensor&, const Tensor&) = default;
};

/// The same without ownership.
struct TensorView {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

using Tensors = std::map<std::string, Tensor>;
using Metadata = std::map<std::string, std::string>;

struct TensorFile {
  Tensors tensors;
  Metadata metadata;
};

/// Elements of a shape; 1 for a scalar.
/// throws  content_error if a size is negative or the product overflows
[[nodiscard]] std::int64_t count_of(std::span<const std::int64_t> shape);

/// Reads a whole file. Nothing in it is trusted: lengths, offsets, shapes, overlaps and gaps are checked before any
/// use. throws  content_error that names the file and, where there is one, the tensor
[[nodiscard]] TensorFile read_safetensors(const std::filesystem::path& file);

/// Writes atomically; equal input gives equal bytes: wide elements first, then by name, the header padded to 8 bytes.
/// throws  content_error if a tensor's bytes do not fit its shape, or the file cannot be written
void write_safetensors(const std::filesystem::path& file, const std::map<std::string, TensorView>& tensors,
                       const Metadata& metadata = {});
void write_safetensors(const std::filesystem::path& file, const Tensors& tensors, const Metadata& metadata = {});

/// Names of the floating-point tensors that hold a NaN or an infinity.
[[nodiscard]] std::vector<std::string> nonfinite_tensors(const Tensors& tensors);

}  // namespace clipbert::io
