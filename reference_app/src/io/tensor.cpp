#include "io/tensor.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "config/errors.hpp"

static_assert(std::endian::native == std::endian::little, "weights files are little endian");

namespace clipbert::io {
namespace {

struct Format {
  DType dtype;
  std::string_view name;
  std::size_t size;
};
constexpr std::array<Format, 10> formats{{{DType::f64, "F64", 8},
                                          {DType::f32, "F32", 4},
                                          {DType::f16, "F16", 2},
                                          {DType::bf16, "BF16", 2},
                                          {DType::i64, "I64", 8},
                                          {DType::i32, "I32", 4},
                                          {DType::i16, "I16", 2},
                                          {DType::i8, "I8", 1},
                                          {DType::u8, "U8", 1},
                                          {DType::boolean, "BOOL", 1}}};

const Format& format_of(DType dtype) { return *std::ranges::find(formats, dtype, &Format::dtype); }

template <class Bits>
bool any_special(std::span<const std::byte> bytes, Bits exponent) {
  for (std::size_t at = 0; at + sizeof(Bits) <= bytes.size(); at += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, bytes.data() + at, sizeof(Bits));
    if ((bits & exponent) == exponent) return true;
  }
  return false;
}

}  // namespace

std::size_t size_of(DType dtype) { return format_of(dtype).size; }
std::string_view name_of(DType dtype) { return format_of(dtype).name; }

std::optional<DType> dtype_named(std::string_view name) {
  const auto* found = std::ranges::find(formats, name, &Format::name);
  return found == formats.end() ? std::nullopt : std::optional(found->dtype);
}

TensorViews views_of(const Tensors& tensors) {
  TensorViews views;
  for (const auto& [name, tensor] : tensors) views[name] = {tensor.dtype, tensor.shape, tensor.bytes};
  return views;
}

std::int64_t count_of(std::span<const std::int64_t> shape) {
  std::int64_t count = 1;
  bool too_large = false;
  for (const auto size : shape) {
    if (size < 0) throw content_error("a shape has the negative size " + std::to_string(size));
    too_large = __builtin_mul_overflow(count, size, &count) || too_large;
  }
  // a zero anywhere makes it empty, whatever the other sizes
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  if (too_large) throw content_error("a shape has more elements than memory can hold");
  return count;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string out = "[";
  for (const auto size : shape) out += (out.size() > 1 ? ", " : "") + std::to_string(size);
  return out + "]";
}

std::vector<std::string> nonfinite_tensors(const Tensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) {
    const bool special = tensor.dtype == DType::f64    ? any_special(tensor.bytes, std::uint64_t{0x7ff0000000000000})
                         : tensor.dtype == DType::f32  ? any_special(tensor.bytes, std::uint32_t{0x7f800000})
                         : tensor.dtype == DType::f16  ? any_special(tensor.bytes, std::uint16_t{0x7c00})
                         : tensor.dtype == DType::bf16 ? any_special(tensor.bytes, std::uint16_t{0x7f80})
                                                       : false;
    if (special) names.push_back(name);
  }
  return names;
}

}  // namespace clipbert::io
