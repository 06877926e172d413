/// Tensors as files hold them: a type, a shape, bytes; no tensor library.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace clipbert::io {

enum class DType { f64, f32, f16, bf16, i64, i32, i16, i8, u8, boolean };

/// Bytes of one element.
[[nodiscard]] std::size_t size_of(DType dtype);
/// The name in a safetensors file: F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL.
[[nodiscard]] std::string_view name_of(DType dtype);
/// The type of such a name, if it is one.
[[nodiscard]] std::optional<DType> dtype_named(std::string_view name);

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
using TensorViews = std::map<std::string, TensorView>;

[[nodiscard]] TensorViews views_of(const Tensors& tensors);

/// Elements of a shape; 1 for a scalar.
/// throws  content_error if a size is negative or the product overflows
[[nodiscard]] std::int64_t count_of(std::span<const std::int64_t> shape);

/// "[30, 16]".
[[nodiscard]] std::string shape_text(std::span<const std::int64_t> shape);

/// Names of the floating-point tensors that hold a NaN or an infinity.
[[nodiscard]] std::vector<std::string> nonfinite_tensors(const Tensors& tensors);

}  // namespace clipbert::io
