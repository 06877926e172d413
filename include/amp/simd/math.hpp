/// Functions of float and of vec<float, N> with equal bits, so that a functor may call them unqualified.
#pragma once
#include <amp/core/config.hpp>
#include <amp/formats/bits.hpp>
#include <amp/simd/vec.hpp>
#include <cstdint>
#include <type_traits>

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

namespace detail {
template <class U, class D>
AMP_INLINE U to_words(const D& x) {
  if constexpr (std::is_same_v<D, double>) {
    return __builtin_bit_cast(U, x);
  } else {
    return (U)x;
  }
}
/// fma without the instruction, exactly: the product of two floats fits in a double, the sum is rounded to odd there,
/// and rounding that to float is the only rounding that shows (Boldo & Melquiond 2008).
/// F, D, U: one float, double and 64-bit word, or vectors of as many. Words instead of comparisons: SSE2 has none for
/// 64 bits.
template <class F, class D, class U>
AMP_INLINE F fma_by_doubles(const D& a, const D& b, const D& c) {
  const D product = a * b;
  const D sum = product + c;
  const D back = sum - product;
  const D error = (product - (sum - back)) + (c - back);
  const U sum_bits = to_words<U>(sum), error_bits = to_words<U>(error);
  const U magnitude = error_bits & 0x7fffffffffffffffu;
  const U nan = (magnitude + 0x000fffffffffffffu) >> 63;  // of an infinite or NaN sum, which stays as it is
  const U inexact = ((magnitude + 0x7fffffffffffffffu) >> 63) ^ nan;
  const U towards_zero = ((sum_bits ^ error_bits) >> 63) & inexact;
  const U odd = (sum_bits - towards_zero) | inexact;
  if constexpr (std::is_same_v<F, float>) {
    return static_cast<float>(__builtin_bit_cast(double, odd));
  } else {
    return __builtin_convertvector((D)odd, F);
  }
}
}  // namespace detail

/// a * b + c with one rounding, on every target: the instruction where there is one, else the same in doubles.
AMP_HD AMP_INLINE float fma(float a, float b, float c) {
#if defined(__FMA__) || defined(__CUDA_ARCH__) || !AMP_X86
  return __builtin_fmaf(a, b, c);
#else
  return detail::fma_by_doubles<float, double, std::uint64_t>(a, b, c);
#endif
}
template <int N>
AMP_INLINE vec<float, N> fma(const vec<float, N>& a, const vec<float, N>& b, const vec<float, N>& c) {
#if AMP_X86
  if constexpr (N == 4) {
    typedef double f64x4 __attribute__((vector_size(32)));
    typedef std::uint64_t u64x4 __attribute__((vector_size(32)));
    const auto wide = [](const auto& x) AMP_LAMBDA { return __builtin_convertvector(x.raw, f64x4); };
    return vec<float, N>(
        detail::fma_by_doubles<typename vec<float, N>::raw_type, f64x4, u64x4>(wide(a), wide(b), wide(c)));
  }
#if !defined(__clang__)
  if constexpr (N == 8) return vec<float, N>(__builtin_ia32_vfmaddps256(a.raw, b.raw, c.raw));
  if constexpr (N == 16) {
    constexpr int round_as_set = 4;
    return vec<float, N>(
        __builtin_ia32_vfmaddps512_mask(a.raw, b.raw, c.raw, static_cast<std::uint16_t>(0xffffu), round_as_set));
  }
#endif
#endif
  vec<float, N> y = c;
  for (int k = 0; k < N; ++k) y.raw[k] = __builtin_fmaf(a.raw[k], b.raw[k], c.raw[k]);
  return y;
}

/// 1 / sqrt(x) in two correctly rounded steps, within 1.5 ulp; processors' own estimates differ from one another.
template <class V>
AMP_HD AMP_INLINE V rsqrt(const V& x) {
  return V(1.f) / sqrt(x);
}

/// c0 + c1 x + c2 x^2 ..., by Horner's rule in fma.
template <class V>
AMP_HD AMP_INLINE V polynomial(const V& /*x*/, float c0) {
  return V(c0);
}
template <class V, class... C>
AMP_HD AMP_INLINE V polynomial(const V& x, float c0, C... rest) {
  return fma(polynomial(x, rest...), x, V(c0));
}

namespace detail {
/// e^x for x up to 128 ln 2, 0 below -126 ln 2; anything for a NaN or a larger x.
template <class V>
AMP_HD AMP_INLINE V exp_in_range(const V& x) {
  constexpr float to_integer = 0x1.8p23f;  // adding it leaves the nearest integer in the low bits
  const V shifted = fma(x, V(0x1.715476p0f), V(to_integer));
  const V n = shifted - V(to_integer);
  const V r = fma(n, V(0x1.05c61p-29f), fma(n, V(-0x1.62e43p-1f), x));  // x - n ln 2, which is split in two
  const V p = polynomial(r, 0.4999999345f, 0.1666652063f, 0.04166838804f, 0.008368716889f, 0.001381459902f);
  const V mantissa = V(1.f) + fma(p, r * r, r);
  const V y = from_bits<V>(bits_of(mantissa) + (bits_of(shifted) << 23));  // times 2^n
  return select(x < V(-0x1.5d589ep6f), V(0.f), y);
}
}  // namespace detail

/// e^x, within 1 ulp; results below 2^-126 are 0, above the largest float infinite.
template <class V>
AMP_HD AMP_INLINE V exp(const V& x) {
  const V y = select(x > V(0x1.62e42ep6f), V(__builtin_inff()), detail::exp_in_range(x));
  return select(x != x, x, y);
}

/// Natural logarithm, within 1 ulp; magnitudes below 2^-126 count as 0, which gives -infinity.
template <class V>
AMP_HD AMP_INLINE V log(const V& x) {
  using W = word_of<V>;
  using I = amp::detail::signed_of<W>;
  constexpr std::uint32_t root_half = 0x3f3504f3u;  // mantissas run from sqrt(1/2) to sqrt(2)
  const W exponent = (W)((I)(bits_of(x) - root_half) >> 23);
  const V n(amp::detail::small_int_times<W>(exponent, 1.f));
  const V f = from_bits<V>(bits_of(x) - (exponent << 23)) - V(1.f);
  const V p = polynomial(f, 0.333333126f, -0.250000096f, 0.2000211866f, -0.1666799584f, 0.1421955242f, -0.1240558915f,
                         0.1188816206f, -0.1167565031f, 0.06746639084f);
  const V square = f * f;
  V y = fma(n, V(-0x1.05c61p-29f), f * square * p);
  y = fma(square, V(-0.5f), y) + f;
  y = fma(n, V(0x1.62e43p-1f), y);
  y = select(x < V(0x1p-126f), V(-__builtin_inff()), y);
  y = select(x <= V(-0x1p-126f), V(__builtin_nanf("")), y);
  return select(isfinite(x), y, select(x == V(-__builtin_inff()), V(__builtin_nanf("")), x));
}

/// The magnitude of `x` with the sign of `sign`.
template <class V>
AMP_HD AMP_INLINE V copysign(const V& x, const V& sign) {
  return from_bits<V>((bits_of(x) & 0x7fffffffu) | (bits_of(sign) & 0x80000000u));
}

/// Hyperbolic tangent, within 2 ulp.
template <class V>
AMP_HD AMP_INLINE V tanh(const V& x) {
  const V z = abs(x);
  const V square = x * x;
  const V p = polynomial(square, -0.3333328194f, 0.133314422f, -0.05373971518f, 0.02063908746f, -0.005704987158f);
  const V near = fma(p * square, x, x);
  const V far = V(1.f) - V(2.f) / (exp(z + z) + V(1.f));
  return copysign(select(z < V(0.625f), near, far), x);
}

/// 1 / (1 + e^-x), within 2 ulp.
template <class V>
AMP_HD AMP_INLINE V sigmoid(const V& x) {
  return V(1.f) / (V(1.f) + exp(-x));
}

namespace detail {
/// erfc(z) / e^(-z^2) for z >= 0, as a polynomial in 1 / (1 + 0.35 z).
template <class V>
AMP_HD AMP_INLINE V scaled_erfc(const V& z) {
  const V t = V(1.f) / fma(z, V(0.35f), V(1.f));
  return t * polynomial(t, 0.1974872378f, 0.1970758021f, 0.1883887071f, 0.1490506128f, 0.1518876805f, 0.07666053155f,
                        -0.01580347995f, 0.1728949854f, -0.1554182127f, 0.03777614214f);
}
/// e^(-scale x^2) for |x| up to 1e9, or NaN; the square's own rounding error is made up for.
template <class V>
AMP_HD AMP_INLINE V gaussian(const V& x, float scale) {
  const V square = x * x;
  const V rest = fma(x, x, -square);
  const V e = exp_in_range(V(-scale) * square);
  return fma(-e, V(scale) * rest, e);
}
/// erfc(a / sqrt(2)) / 2 where `e` is gaussian(a, 0.5).
template <class V>
AMP_HD AMP_INLINE V normal_tail(const V& a, const V& e) {
  return V(0.5f) * e * scaled_erfc(a * V(0x1.6a09e6p-1f));
}
}  // namespace detail

/// Error function, within 3 ulp.
template <class V>
AMP_HD AMP_INLINE V erf(const V& x) {
  const V z = min(abs(x), V(4.f));  // 1 from there on; a NaN passes
  const V square = z * z;
  const V near = x * polynomial(square, 1.128379166f, -0.3761262582f, 0.1128358515f, -0.02685381194f, 0.005188327702f,
                                -0.0008010193755f, 7.853861755e-5f);
  const V far = copysign(V(1.f) - detail::gaussian(z, 1.f) * detail::scaled_erfc(z), x);
  return select(z < V(1.f), near, far);
}

/// Probability that a standard normal variable is below x, erfc(-x / sqrt(2)) / 2; within 8 ulp, in the lower tail too.
template <class V>
AMP_HD AMP_INLINE V normal_cdf(const V& x) {
  const V a = min(abs(x), V(14.f));  // the tail is 0 there; a NaN passes
  const V tail = detail::normal_tail(a, detail::gaussian(a, 0.5f));
  return select(x < V(0.f), tail, V(1.f) - tail);
}
/// Its density, e^(-x^2 / 2) / sqrt(2 pi), within 3 ulp.
template <class V>
AMP_HD AMP_INLINE V normal_pdf(const V& x) {
  return V(0x1.988454p-2f) * detail::gaussian(min(abs(x), V(14.f)), 0.5f);
}
/// x times the density, and the distribution function, of one exponential.
template <class V>
AMP_HD AMP_INLINE void normal_cdf_and_slope(const V& x, V& cdf, V& x_pdf) {
  const V a = min(abs(x), V(14.f));
  const V e = detail::gaussian(a, 0.5f);
  const V tail = detail::normal_tail(a, e);
  cdf = select(x < V(0.f), tail, V(1.f) - tail);
  x_pdf = copysign(V(0x1.988454p-2f) * e * a, x);
}

}  // namespace amp::simd
