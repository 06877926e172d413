/// Bit patterns of narrow IEEE-like formats: integer code that serves one value and a whole vector of values.
/// `U` is std::uint32_t or a vector of it. Nothing here depends on the thread's FTZ/DAZ state: subnormals of the narrow
/// format are never floats that the processor could flush.
#pragma once
#include <amp/core/config.hpp>
#include <bit>
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
/// Comparison of magnitudes (sign bit clear), signed because AVX2 has no unsigned one.
template <class U>
AMP_HD AMP_INLINE constexpr auto above(const U& magnitude, std::int32_t limit) {
  return (signed_of<U>)magnitude > limit;
}

/// fp32 bits -> bf16 bits, nearest-even; a NaN stays one, quieted, with the payload that fits.
template <class U>
AMP_HD AMP_INLINE constexpr U bf16_from_float_bits(const U& x) {
  const U rounded = (x + 0x7fffu + ((x >> 16) & 1u)) >> 16;
  const U quiet = (x >> 16) | 0x40u;
  return above(U(x & 0x7fffffffu), 0x7f800000) ? quiet : rounded;
}
template <class U>
AMP_HD AMP_INLINE constexpr U bf16_to_float_bits(const U& h) {
  return h << 16;
}

/// fp32 bits -> fp16 bits, nearest-even into the subnormals; 65520 and above become infinity.
template <class U>
AMP_HD AMP_INLINE constexpr U half_from_float_bits(const U& bits) {
  const U sign = (bits >> 16) & 0x8000u;
  const U x = bits & 0x7fffffffu;
  const U normal = (x + 0xfffu + ((x >> 13) & 1u) - (112u << 23)) >> 13;
  // 0.5f has an ulp of 2^-24, the spacing of fp16's subnormals: the addition rounds, the integer difference is the
  // result.
  const U subnormal = as_word<U>(as_float(x) + 0.5f) - 0x3f000000u;
  const U zero = x & 0u;
  const U special = above(x, 0x7f800000) ? U(((x >> 13) & 0x3ffu) | 0x7e00u) : U(zero + 0x7c00u);
  const U finite = above(x, 0x387fffff) ? normal : subnormal;
  return (above(x, 0x477fefff) ? special : finite) | sign;
}
template <class U>
AMP_HD AMP_INLINE constexpr U half_to_float_bits(const U& h) {
  const U sign = (h & 0x8000u) << 16;
  const U x = h & 0x7fffu;
  const U normal = (x << 13) + (112u << 23);
  const U subnormal = as_word<U>(small_int_times(x, 0x1p-24f));
  const U zero = x & 0u;
  const U quiet = above(x, 0x7c00) ? U(zero + 0x400000u) : zero;  // as F16C does with a signalling NaN
  const U special = (x << 13) | quiet | 0x7f800000u;
  const U finite = above(x, 0x3ff) ? normal : subnormal;
  return (above(x, 0x7bff) ? special : finite) | sign;
}

/// Rounds (-1)^negative * significand * 2^exponent once, nearest-even, to a format of `E` exponent and `M` mantissa
/// bits.
template <int E, int M>
AMP_HD constexpr std::uint32_t round_exact(bool negative, std::uint64_t significand, int exponent) {
  constexpr int bias = (1 << (E - 1)) - 1;
  constexpr std::uint32_t infinity = ((1u << E) - 1u) << M;
  const std::uint32_t sign = negative ? 1u << (E + M) : 0u;
  if (significand == 0) return sign;
  const int top = 63 - std::countl_zero(significand) + exponent;  // value in [2^top, 2^(top+1))
  if (top > bias) return sign | infinity;
  const int ulp = (top < 1 - bias ? 1 - bias : top) - M;  // exponent of the result's last place
  const int shift = ulp - exponent;
  std::uint64_t kept = 0;
  if (shift <= 0) {
    kept = significand << -shift;
  } else if (shift < 64) {
    const std::uint64_t half_ulp = std::uint64_t{1} << (shift - 1);
    const std::uint64_t rest = significand & (half_ulp * 2 - 1);
    kept = significand >> shift;
    kept += (rest > half_ulp || (rest == half_ulp && (kept & 1u) != 0)) ? 1u : 0u;
  } else {
    kept = shift == 64 && significand > (std::uint64_t{1} << 63) ? 1u : 0u;
  }
  // A carry out of the mantissa runs into the exponent, as it shall; at the top it gives infinity.
  const int field = top < 1 - bias ? 0 : top + bias - 1;
  return sign | ((static_cast<std::uint32_t>(field) << M) + static_cast<std::uint32_t>(kept));
}

template <int E, int M>
AMP_HD constexpr std::uint32_t round_from_double(double value) {
  const auto bits = __builtin_bit_cast(std::uint64_t, value);
  const bool negative = (bits >> 63) != 0;
  const int field = static_cast<int>((bits >> 52) & 0x7ffu);
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52) - 1);
  if (field == 0x7ff) {
    const std::uint32_t infinity = ((1u << E) - 1u) << M;
    const std::uint32_t payload =
        fraction == 0 ? 0u : (1u << (M - 1)) | static_cast<std::uint32_t>(fraction >> (52 - M));
    return (negative ? 1u << (E + M) : 0u) | infinity | payload;
  }
  const std::uint64_t hidden = field == 0 ? 0 : std::uint64_t{1} << 52;
  return round_exact<E, M>(negative, fraction | hidden, (field == 0 ? 1 : field) - 1075);
}

template <int E, int M, std::integral I>
AMP_HD constexpr std::uint32_t round_from_integer(I value) {
  if constexpr (std::signed_integral<I>) {
    const auto wide = static_cast<std::int64_t>(value);
    const auto magnitude = wide < 0 ? 0 - static_cast<std::uint64_t>(wide) : static_cast<std::uint64_t>(wide);
    return round_exact<E, M>(wide < 0, magnitude, 0);
  } else {
    return round_exact<E, M>(false, static_cast<std::uint64_t>(value), 0);
  }
}

}  // namespace amp::detail
