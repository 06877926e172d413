/// 32-bit words as integers and floats: what the formats' integer code needs to serve one value and a whole vector.
/// `U` is std::uint32_t or a vector of it.
#pragma once
#include <amp/core/config.hpp>
#include <concepts>
#include <cstdint>

namespace amp::detail {

/// The integer and float types of the same shape as `U`; simd/vec.hpp adds the vectors.
template <class U>
struct word_family;
template <>
struct word_family<std::uint32_t> {
  using signed_type = std::int32_t;
  using float_type = float;
};
template <class U>
using signed_of = typename word_family<U>::signed_type;
template <class U>
using float_of = typename word_family<U>::float_type;

template <class U>
AMP_HD AMP_INLINE constexpr float_of<U> as_float(const U& bits) {
  if constexpr (std::same_as<U, std::uint32_t>) {
    return __builtin_bit_cast(float, bits);
  } else {
    return (float_of<U>)bits;
  }
}
template <class U>
AMP_HD AMP_INLINE constexpr U as_word(const float_of<U>& value) {
  if constexpr (std::same_as<U, std::uint32_t>) {
    return __builtin_bit_cast(std::uint32_t, value);
  } else {
    return (U)value;
  }
}
/// Exact for the few bits that a narrow subnormal has; the product is a normal float, so nothing is flushed.
template <class U>
AMP_HD AMP_INLINE constexpr float_of<U> small_int_times(const U& n, float unit) {
  if constexpr (std::same_as<U, std::uint32_t>) {
    return static_cast<float>(static_cast<std::int32_t>(n)) * unit;
  } else {
    return __builtin_convertvector((signed_of<U>)n, float_of<U>) * unit;
  }
}
/// The integer part of small non-negative floats.
template <class U>
AMP_HD AMP_INLINE constexpr U whole_part(const float_of<U>& value) {
  if constexpr (std::same_as<U, std::uint32_t>) {
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(value));
  } else {
    return (U) __builtin_convertvector(value, signed_of<U>);
  }
}
/// Comparison of magnitudes (sign bit clear), signed because AVX2 has no unsigned one.
template <class U>
AMP_HD AMP_INLINE constexpr auto above(const U& magnitude, std::int32_t limit) {
  return (signed_of<U>)magnitude > limit;
}

}  // namespace amp::detail
