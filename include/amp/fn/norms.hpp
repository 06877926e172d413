/// Norms other than the common one: largest magnitude, any p, blends of an old and a new norm.
#pragma once
#include <amp/apply/fold.hpp>
#include <amp/core/check.hpp>
#include <amp/fn/l2norm.hpp>
#include <amp/multi_tensor_apply.hpp>
#include <amp/simd/math.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

namespace amp {

/// Which norm: the root of the sum of squares, or the largest magnitude.
enum class norm_kind : std::uint8_t { two, infinity };

namespace apply {
/// A sum of p-th powers, in double throughout: fp32 powers would overflow.
struct sum_of_powers {
  double p;

  static constexpr bool rescans = true, in_double = true;
  template <class V>
  AMP_HD AMP_INLINE static V join(const V& acc, const V&) {
    return acc;
  }
  [[nodiscard]] double widen(double x) const { return std::pow(x, p); }
  static double add(double acc, double x) { return acc + x; }
};
}  // namespace apply

namespace fn {

/// The magnitude of one lane's elements, to be folded.
struct Magnitude {
  template <class V>
  AMP_HD AMP_INLINE void operator()(V (&value)[1], const V& x) const {
    using simd::abs;
    value[0] = abs(x);
  }
};

namespace detail {
template <class E, class Fold, class Lane>
[[nodiscard]] norm_result folded_norm(const E& executor, const Fold& fold, const Lane& lane, where at) {
  amp::detail::check_lanes(at, lane);
  auto sums = apply::fold<1>(executor, fold, Magnitude{}, lane);
  norm_result result{sums[0].total, std::move(sums[0].per_tensor)};
  mark_nonfinite(result);
  return result;
}
}  // namespace detail

/// The largest magnitude of a read lane, in all and per tensor; a NaN element makes it NaN.
/// throws  amp::error for a malformed list
template <class E, lane::Lane L>
[[nodiscard]] norm_result maxnorm(const E& executor, const L& lane, where at = where::here()) {
  return detail::folded_norm(executor, apply::maximum{}, lane, at);
}
template <class E>
[[nodiscard]] norm_result maxnorm(const E& executor, tensor_list list, where at = where::here()) {
  return maxnorm(executor, lane::in(list), at);
}

/// (sum |x|^p)^(1/p) of a read lane. p 1: fp32 lanes and double, as l2norm. Any other p: a power per element, in
/// double. Infinity is maxnorm. Finite elements always give a finite norm unless the double sum of powers overflows.
/// throws  amp::error unless p > 0, and for a malformed list
template <class E, lane::Lane L>
[[nodiscard]] norm_result pnorm(const E& executor, const L& lane, double p, where at = where::here()) {
  expects(p > 0., "the p of a norm must be positive; infinity gives the largest magnitude", at);
  if (p == std::numeric_limits<double>::infinity()) return maxnorm(executor, lane, at);
  if (p == 1.) return detail::folded_norm(executor, apply::sum{}, lane, at);
  norm_result result = detail::folded_norm(executor, apply::sum_of_powers{p}, lane, at);
  result.total = std::pow(result.total, 1. / p);
  for (double& norm : result.per_tensor) norm = std::pow(norm, 1. / p);
  return result;
}
template <class E>
[[nodiscard]] norm_result pnorm(const E& executor, tensor_list list, double p, where at = where::here()) {
  return pnorm(executor, lane::in(list), p, at);
}

/// The norm of a lane of any kind: also one that is decoded by the lane itself.
template <class E, lane::Lane L>
[[nodiscard]] norm_result norms(const E& executor, const L& lane, norm_kind kind, where at = where::here()) {
  if (kind == norm_kind::infinity) return maxnorm(executor, lane, at);
  if constexpr (requires { l2norm(executor, lane, at); }) {
    return l2norm(executor, lane, at);
  } else {
    norm_result result = detail::folded_norm(executor, apply::sum_of_squares{}, lane, at);
    result.total = std::sqrt(result.total);
    for (double& norm : result.per_tensor) norm = std::sqrt(norm);
    return result;
  }
}

/// An old norm blended with a new one: sqrt(a*old^2 + b*n^2), or a*old + b*n for the largest magnitude.
/// source  Ginsburg et al. 2019 (arXiv:1905.11286), in the form of apex multi_tensor_novograd
[[nodiscard]] inline double blended_norm(double old, double n, double a, double b, norm_kind kind) noexcept {
  return kind == norm_kind::two ? std::sqrt(a * old * old + b * n * n) : a * old + b * n;
}

}  // namespace fn
}  // namespace amp
