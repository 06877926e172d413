/// What a loss-scale policy is, and the two that never move: NoScale, StaticScale.
#pragma once
#include <amp/core/check.hpp>
#include <amp/core/config.hpp>
#include <concepts>
#include <type_traits>

namespace amp {

/// A policy is a value. `skips` false: an overflow is reported and the step is done all the same.
/// `next` is noexcept because the decision may run on a device, where nothing can be thrown.
/// Optional members: `validate(where)` throws amp::error on parameters out of range; `counters()` and
/// `set_counters(array)` name what has to be saved besides the scale; `skips_now()` refines `skips` at run time;
/// `forgave()` says that the overflow just seen left the scale as it was on purpose, not for want of a lower one.
template <class P>
concept ScalePolicy = std::is_trivially_copyable_v<P> && requires(P p, const P c, float scale, bool overflow) {
  { P::skips } -> std::convertible_to<bool>;
  { c.initial() }
  noexcept->std::same_as<float>;
  { p.next(scale, overflow) }
  noexcept->std::same_as<float>;
};

/// True if gradients can be scaled by `s` and brought back: s and its fp32 reciprocal are positive and finite.
[[nodiscard]] AMP_HD constexpr bool usable_scale(float s) noexcept {
  constexpr double overflow_to_inf = 0x1.ffffffp127;  // first double that rounds to an infinite float
  constexpr float largest = 0x1.fffffep127f;
  return s > 0.f && s <= largest && 1.0 / static_cast<double>(s) < overflow_to_inf;
}

/// 1/s, computed in fp64 and rounded once to fp32.
[[nodiscard]] AMP_HD constexpr float inverse_scale(float s) noexcept {
  return static_cast<float>(1.0 / static_cast<double>(s));
}

/// True if an overflow skips the step under this policy.
template <ScalePolicy P>
[[nodiscard]] AMP_HD constexpr bool skips_on_overflow(const P& policy) noexcept {
  if constexpr (requires { policy.skips_now(); }) {
    return policy.skips_now();
  } else {
    return P::skips;
  }
}

/// True if the last overflow was let off by the policy, and not held back by a bound.
template <ScalePolicy P>
[[nodiscard]] AMP_HD constexpr bool forgives_overflow(const P& policy) noexcept {
  if constexpr (requires { policy.forgave(); }) {
    return policy.forgave();
  } else {
    return false;
  }
}

/// No scaling at all: the policy of fp32 and of bf16, whose exponent range is fp32's.
struct NoScale {
  static constexpr bool skips = false;
  [[nodiscard]] AMP_HD constexpr float initial() const noexcept { return 1.f; }
  AMP_HD constexpr float next(float scale, bool) noexcept { return scale; }
};

/// A constant scale: overflow is detected and reported, never skipped.
struct StaticScale {
  static constexpr bool skips = false;
  float value = 1.f;

  [[nodiscard]] AMP_HD constexpr float initial() const noexcept { return value; }
  AMP_HD constexpr float next(float scale, bool) noexcept { return scale; }
  constexpr void validate(where at) const {
    expects(usable_scale(value), "StaticScale: value must be positive with a finite reciprocal", at);
  }
};

}  // namespace amp
