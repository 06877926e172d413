/// c10's 16-bit and 8-bit types as amp's, and LibTorch's run-time types as amp::dtype.
#pragma once
#include <c10/core/ScalarType.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e4m3fnuz.h>
#include <c10/util/Float8_e5m2.h>
#include <c10/util/Float8_e5m2fnuz.h>
#include <c10/util/Half.h>

#include <amp/core/dtype.hpp>
#include <amp/half_traits.hpp>
#include <optional>

/// The same bits: tensors of these types are read and written in place.
template <>
struct amp::format_of<c10::Half> {
  using type = amp::half;
};
template <>
struct amp::format_of<c10::BFloat16> {
  using type = amp::bfloat16;
};
template <>
struct amp::format_of<c10::Float8_e4m3fn> {
  using type = amp::e4m3;
};
template <>
struct amp::format_of<c10::Float8_e5m2> {
  using type = amp::e5m2;
};
template <>
struct amp::format_of<c10::Float8_e4m3fnuz> {
  using type = amp::e4m3fnuz;
};
template <>
struct amp::format_of<c10::Float8_e5m2fnuz> {
  using type = amp::e5m2fnuz;
};

namespace amp_torch {

static_assert(amp::LayoutCompatible<c10::Half> && amp::LayoutCompatible<c10::BFloat16> &&
              amp::LayoutCompatible<c10::Float8_e4m3fn> && amp::LayoutCompatible<c10::Float8_e5m2> &&
              amp::LayoutCompatible<c10::Float8_e4m3fnuz> && amp::LayoutCompatible<c10::Float8_e5m2fnuz>);

/// The toolkit's name of a LibTorch type, or nothing if the toolkit steps no parameters of it (double, integers).
[[nodiscard]] constexpr std::optional<amp::dtype> to_amp(at::ScalarType type) noexcept {
  switch (type) {
    case at::ScalarType::Float:
      return amp::dtype::fp32;
    case at::ScalarType::Half:
      return amp::dtype::fp16;
    case at::ScalarType::BFloat16:
      return amp::dtype::bf16;
    default:
      return std::nullopt;
  }
}

/// The storage format of a LibTorch type, 8-bit ones included, or nothing if it is none of the toolkit's.
[[nodiscard]] constexpr std::optional<amp::dtype> storage_format(at::ScalarType type) noexcept {
  switch (type) {
    case at::ScalarType::Float8_e4m3fn:
      return amp::dtype::e4m3;
    case at::ScalarType::Float8_e5m2:
      return amp::dtype::e5m2;
    case at::ScalarType::Float8_e4m3fnuz:
      return amp::dtype::e4m3fnuz;
    case at::ScalarType::Float8_e5m2fnuz:
      return amp::dtype::e5m2fnuz;
    default:
      return to_amp(type);
  }
}

[[nodiscard]] constexpr at::ScalarType to_torch(amp::dtype type) noexcept {
  switch (type) {
    case amp::dtype::fp16:
      return at::ScalarType::Half;
    case amp::dtype::bf16:
      return at::ScalarType::BFloat16;
    case amp::dtype::e4m3:
      return at::ScalarType::Float8_e4m3fn;
    case amp::dtype::e5m2:
      return at::ScalarType::Float8_e5m2;
    case amp::dtype::e4m3fnuz:
      return at::ScalarType::Float8_e4m3fnuz;
    case amp::dtype::e5m2fnuz:
      return at::ScalarType::Float8_e5m2fnuz;
    case amp::dtype::fp32:
      break;
  }
  return at::ScalarType::Float;
}

}  // namespace amp_torch
