/// `vec<float, N>`: N floats with the operators of one float, so that a functor is written once for both.
/// N is 4, 8 or 16 and names the target (simd/target.hpp). The code carries no target attribute and is inlined into the
/// kernel wrappers; a vector never crosses a call.
#pragma once
#include <amp/core/config.hpp>
#include <amp/formats/bits.hpp>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace amp::simd {

namespace detail {
template <int N>
struct raw_types {
  typedef float f32 __attribute__((vector_size(4 * N)));
  typedef std::int32_t i32 __attribute__((vector_size(4 * N)));
  typedef std::uint32_t u32 __attribute__((vector_size(4 * N)));
  typedef std::uint64_t u64 __attribute__((vector_size(4 * N)));  // half as many lanes
  typedef std::uint16_t u16 __attribute__((vector_size(2 * N)));
  typedef std::uint8_t u8 __attribute__((vector_size(N)));
  // The same in memory: any address that is legal for one element, any type of the same layout.
  typedef float f32_memory __attribute__((vector_size(4 * N), aligned(4), may_alias));
  typedef std::uint16_t u16_memory __attribute__((vector_size(2 * N), aligned(2), may_alias));
  typedef std::uint8_t u8_memory __attribute__((vector_size(N), aligned(1), may_alias));
};

#if AMP_X86 && !defined(__clang__)
/// Only declared: GCC knows the builtins of a target once a declaration names it (immintrin.h would do, at 0.35 s).
AMP_TARGET_AVX2 void know_builtins_avx2();
AMP_TARGET_AVX512 void know_builtins_avx512();
#endif

/// Builtins and a shuffle, because `vector + x` and `{x, x, ...}` become N masked moves with GCC.
template <int N, int... K>
AMP_INLINE typename raw_types<N>::f32 broadcast(float x, std::integer_sequence<int, K...>) {
  const typename raw_types<4>::f32 first = {x};
#if AMP_X86 && !defined(__clang__)
  if constexpr (N == 16) return __builtin_ia32_broadcastss512(first, typename raw_types<N>::f32{}, 0xffffu);
  if constexpr (N == 8) return __builtin_ia32_vbroadcastss_ps256(first);
#endif
#if defined(__CUDACC__)  // nvcc cannot print a pack inside the builtin back to the host compiler
  typename raw_types<N>::f32 all{};
  ((all[K] = x), ...);
  return all;
#else
  return __builtin_shufflevector(first, first, (K * 0)...);
#endif
}
}  // namespace detail

template <class T, int N>
struct vec;

/// Lanes of -1 or 0.
template <int N>
struct mask {
  typename detail::raw_types<N>::i32 raw;

  AMP_INLINE friend mask operator&(const mask& a, const mask& b) { return {a.raw & b.raw}; }
  AMP_INLINE friend mask operator|(const mask& a, const mask& b) { return {a.raw | b.raw}; }
  AMP_INLINE friend mask operator!(const mask& a) { return {~a.raw}; }
};

template <int N>
struct vec<float, N> {
  static_assert(N == 4 || N == 8 || N == 16, "amp: a vec has 4, 8 or 16 lanes");
  using raw_type = typename detail::raw_types<N>::f32;
  raw_type raw;

  vec() = default;
  AMP_INLINE explicit vec(const raw_type& r) : raw(r) {}
  AMP_INLINE vec(float x)  // NOLINT(google-explicit-constructor): a uniform value stands beside lanes, as in `beta * m`
      : raw(detail::broadcast<N>(x, std::make_integer_sequence<int, N>{})) {}

  AMP_INLINE friend vec operator+(const vec& a, const vec& b) { return vec(raw_type(a.raw + b.raw)); }
  AMP_INLINE friend vec operator-(const vec& a, const vec& b) { return vec(raw_type(a.raw - b.raw)); }
  AMP_INLINE friend vec operator*(const vec& a, const vec& b) { return vec(raw_type(a.raw * b.raw)); }
  AMP_INLINE friend vec operator/(const vec& a, const vec& b) { return vec(raw_type(a.raw / b.raw)); }
  AMP_INLINE friend vec operator-(const vec& a) { return vec(raw_type(-a.raw)); }
  AMP_INLINE vec& operator+=(const vec& b) { return *this = *this + b; }
  AMP_INLINE vec& operator-=(const vec& b) { return *this = *this - b; }
  AMP_INLINE vec& operator*=(const vec& b) { return *this = *this * b; }
  AMP_INLINE vec& operator/=(const vec& b) { return *this = *this / b; }

  AMP_INLINE friend mask<N> operator<(const vec& a, const vec& b) { return {a.raw < b.raw}; }
  AMP_INLINE friend mask<N> operator<=(const vec& a, const vec& b) { return {a.raw <= b.raw}; }
  AMP_INLINE friend mask<N> operator>(const vec& a, const vec& b) { return {a.raw > b.raw}; }
  AMP_INLINE friend mask<N> operator>=(const vec& a, const vec& b) { return {a.raw >= b.raw}; }
  AMP_INLINE friend mask<N> operator==(const vec& a, const vec& b) { return {a.raw == b.raw}; }
  AMP_INLINE friend mask<N> operator!=(const vec& a, const vec& b) { return {a.raw != b.raw}; }
};

template <class V>
struct lane_traits;
template <>
struct lane_traits<float> {
  static constexpr int count = 1;
  using mask_type = bool;
  using word_type = std::uint32_t;
};
template <int N>
struct lane_traits<vec<float, N>> {
  static constexpr int count = N;
  using mask_type = mask<N>;
  using word_type = typename detail::raw_types<N>::u32;
};

/// How many elements one `V` holds: 1 for float.
template <class V>
inline constexpr int lanes = lane_traits<V>::count;
template <class V>
using mask_of = typename lane_traits<V>::mask_type;
template <class V>
using word_of = typename lane_traits<V>::word_type;

/// The bits of a float or a vec.
AMP_HD AMP_INLINE std::uint32_t bits_of(float x) { return __builtin_bit_cast(std::uint32_t, x); }
template <int N>
AMP_INLINE word_of<vec<float, N>> bits_of(const vec<float, N>& x) {
  return (word_of<vec<float, N>>)x.raw;
}
template <class V>
AMP_HD AMP_INLINE V from_bits(const word_of<V>& bits) {
  if constexpr (std::is_same_v<V, float>) {
    return __builtin_bit_cast(float, bits);
  } else {
    return V((typename V::raw_type)bits);
  }
}

}  // namespace amp::simd

namespace amp::detail {
template <int N>
struct vector_family {
  using signed_type = typename simd::detail::raw_types<N>::i32;
  using float_type = typename simd::detail::raw_types<N>::f32;
};
template <>
struct word_family<simd::detail::raw_types<4>::u32> : vector_family<4> {};
template <>
struct word_family<simd::detail::raw_types<8>::u32> : vector_family<8> {};
template <>
struct word_family<simd::detail::raw_types<16>::u32> : vector_family<16> {};
}  // namespace amp::detail
