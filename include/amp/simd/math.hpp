/// Functions of float and of vec<float, N> with equal bits, so that a functor may call them unqualified.
#pragma once
#include <amp/core/config.hpp>
#include <amp/simd/vec.hpp>
#include <cstdint>

namespace amp::simd {

/// Correctly rounded square root.
AMP_HD AMP_INLINE float sqrt(float x) { return __builtin_sqrtf(x); }
template <int N>
AMP_INLINE vec<float, N> sqrt(const vec<float, N>& x) {
#if AMP_X86 && !defined(__clang__)
  if constexpr (N == 16) {
    constexpr int round_as_set = 4;
    return vec<float, N>(
        __builtin_ia32_sqrtps512_mask(x.raw, x.raw, static_cast<std::uint16_t>(0xffffu), round_as_set));
  } else if constexpr (N == 8) {
    return vec<float, N>(__builtin_ia32_sqrtps256(x.raw));
  } else {
    return vec<float, N>(__builtin_ia32_sqrtps(x.raw));
  }
#else
  vec<float, N> y = x;
  for (int k = 0; k < N; ++k) y.raw[k] = __builtin_sqrtf(x.raw[k]);
  return y;
#endif
}

/// `condition ? a : b`, lane by lane.
AMP_HD AMP_INLINE float select(bool condition, float a, float b) { return condition ? a : b; }
template <int N>
AMP_INLINE vec<float, N> select(const mask<N>& condition, const vec<float, N>& a, const vec<float, N>& b) {
  using V = vec<float, N>;
  const auto m = (word_of<V>)condition.raw;
  return from_bits<V>((bits_of(a) & m) | (bits_of(b) & ~m));
}

/// Magnitude; only the sign bit changes.
AMP_HD AMP_INLINE float abs(float x) { return __builtin_fabsf(x); }
template <int N>
AMP_INLINE vec<float, N> abs(const vec<float, N>& x) {
  return from_bits<vec<float, N>>(bits_of(x) & 0x7fffffffu);
}

/// The first argument unless the second is smaller (larger): an unordered comparison gives `a`.
template <class V>
AMP_HD AMP_INLINE V min(const V& a, const V& b) {
  return select(b < a, b, a);
}
template <class V>
AMP_HD AMP_INLINE V max(const V& a, const V& b) {
  return select(b > a, b, a);
}

/// Magnitude, as fp32 bits, at or above `limit`: with 0x7f800000 the lanes that are infinite or NaN.
AMP_HD AMP_INLINE bool reaches(float x, std::int32_t limit) {
  return static_cast<std::int32_t>(__builtin_bit_cast(std::uint32_t, x) & 0x7fffffffu) >= limit;
}
template <int N>
AMP_INLINE mask<N> reaches(const vec<float, N>& x, std::int32_t limit) {
  using I = typename detail::raw_types<N>::i32;
  const vec<float, N> below_limit(__builtin_bit_cast(float, limit - 1));  // a float, for the cheap broadcast
  return {(I)(bits_of(x) & 0x7fffffffu) > (I)below_limit.raw};
}

/// Neither infinite nor NaN.
AMP_HD AMP_INLINE bool isfinite(float x) { return !reaches(x, 0x7f800000); }
template <int N>
AMP_INLINE mask<N> isfinite(const vec<float, N>& x) {
  return !reaches(x, 0x7f800000);
}

/// Whether any lane is set.
AMP_HD AMP_INLINE bool any(bool condition) { return condition; }
template <int N>
AMP_INLINE bool any(const mask<N>& condition) {
  std::int32_t seen = 0;
  for (int k = 0; k < N; ++k) seen |= condition.raw[k];
  return seen != 0;
}

}  // namespace amp::simd
