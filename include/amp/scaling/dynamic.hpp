/// The loss-scale policies that move: apex's rules, GradScaler's, and GradScaler's with hysteresis.
#pragma once
#include <amp/core/check.hpp>
#include <amp/core/config.hpp>
#include <amp/scaling/policy.hpp>
#include <array>
#include <cstdint>

namespace amp {

/// The rules of NVIDIA apex: halve and skip after an overflow, double after `window` clean steps.
struct DynamicScale {
  static constexpr bool skips = true;
  float init = 0x1p16f;        ///< apex LossScaler init_scale
  float factor = 2.f;          ///< apex scale_factor
  std::int64_t window = 2000;  ///< apex scale_window: clean steps until the scale grows
  float max = 0x1p24f;         ///< apex max_loss_scale
  float min = 0.f;             ///< apex min_loss_scale; 0: none, the scale stops where its reciprocal would overflow
  std::int64_t clean = 0;      ///< clean steps since the last change

  [[nodiscard]] AMP_HD constexpr float initial() const noexcept { return init < max ? init : max; }
  AMP_HD constexpr float next(float scale, bool overflow) noexcept {
    if (overflow) {
      clean = 0;
      const float lower = scale / factor;
      if (lower < min) return scale < min ? scale : min;
      return usable_scale(lower) ? lower : scale;
    }
    if (++clean < window) return scale;
    clean = 0;
    const float higher = static_cast<double>(scale) * factor < max ? scale * factor : max;
    return usable_scale(higher) ? higher : scale;
  }
  [[nodiscard]] constexpr std::array<std::int64_t, 1> counters() const noexcept { return {clean}; }
  constexpr void set_counters(const std::array<std::int64_t, 1>& c) noexcept { clean = c[0]; }
  constexpr void validate(where at) const {
    expects(usable_scale(init), "DynamicScale: init must be positive with a finite reciprocal", at);
    expects(factor > 1.f && factor <= 0x1p64f, "DynamicScale: factor must be above 1", at);
    expects(window >= 1, "DynamicScale: window must be at least 1", at);
    expects(usable_scale(max), "DynamicScale: max must be positive with a finite reciprocal", at);
    expects(min == 0.f || usable_scale(min), "DynamicScale: min must be 0 (none) or positive", at);
    expects(min <= max && min <= init, "DynamicScale: min must not be above init or max", at);
    expects(clean >= 0 && clean < window, "DynamicScale: clean must lie in [0, window)", at);
  }
};

namespace detail {
/// scale * factor in fp64, rounded once; the scale itself where the product cannot be used.
[[nodiscard]] AMP_HD constexpr float moved_scale(float scale, double factor) noexcept {
  constexpr double overflow_to_inf = 0x1.ffffffp127;
  const double product = static_cast<double>(scale) * factor;
  if (!(product < overflow_to_inf)) return scale;
  const auto moved = static_cast<float>(product);
  return usable_scale(moved) ? moved : scale;
}
}  // namespace detail

/// The rules of torch.amp.GradScaler: multiply by `backoff` and skip after an overflow, by `growth` after `interval`
/// clean steps, unless that is not finite. No bounds: the scale may fall below 1.
struct TorchScale {
  static constexpr bool skips = true;
  float init = 0x1p16f;          ///< GradScaler init_scale
  double growth = 2.;            ///< growth_factor; a double, as in the saved form
  double backoff = 0.5;          ///< backoff_factor
  std::int64_t interval = 2000;  ///< growth_interval
  std::int64_t tracker = 0;      ///< _growth_tracker: clean steps since the last change

  [[nodiscard]] AMP_HD constexpr float initial() const noexcept { return init; }
  AMP_HD constexpr float next(float scale, bool overflow) noexcept {
    if (overflow) {
      tracker = 0;
      return detail::moved_scale(scale, backoff);
    }
    if (++tracker < interval) return scale;
    tracker = 0;
    return detail::moved_scale(scale, growth);
  }
  [[nodiscard]] constexpr std::array<std::int64_t, 1> counters() const noexcept { return {tracker}; }
  constexpr void set_counters(const std::array<std::int64_t, 1>& c) noexcept { tracker = c[0]; }
  constexpr void validate(where at) const {
    expects(usable_scale(init), "TorchScale: init must be positive with a finite reciprocal", at);
    expects(growth > 1. && growth <= 0x1p64, "TorchScale: growth must be above 1", at);
    expects(backoff > 0. && backoff < 1., "TorchScale: backoff must lie between 0 and 1", at);
    expects(interval >= 1, "TorchScale: interval must be at least 1", at);
    expects(tracker >= 0 && tracker < interval, "TorchScale: tracker must lie in [0, interval)", at);
  }
};

/// TorchScale that forgives: the scale backs off only when `hysteresis` overflows came without a clean step between
/// them, and again with each that follows. Every overflow skips. With hysteresis 1 it is TorchScale.
/// source  the hysteresis argument of apex's and Transformer Engine's update_scale_hysteresis
struct HysteresisScale {
  static constexpr bool skips = true;
  float init = 0x1p16f;
  double growth = 2.;  ///< 1 is legal: a scale that only falls
  double backoff = 0.5;
  std::int64_t interval = 2000;
  std::int64_t hysteresis = 2;  ///< overflows until the scale backs off
  std::int64_t tracker = 0;     ///< clean steps since the last change
  std::int64_t left = -1;       ///< hysteresis tracker; -1: starts at `hysteresis`

  [[nodiscard]] AMP_HD constexpr float initial() const noexcept { return init; }
  AMP_HD constexpr float next(float scale, bool overflow) noexcept {
    if (overflow) {
      const std::int64_t before = remaining();
      left = before > 0 ? before - 1 : 0;
      tracker = 0;
      return left > 0 ? scale : detail::moved_scale(scale, backoff);
    }
    left = hysteresis;
    if (++tracker < interval) return scale;
    tracker = 0;
    return detail::moved_scale(scale, growth);
  }
  /// Overflows that are still forgiven, and the one that is not.
  [[nodiscard]] AMP_HD constexpr std::int64_t remaining() const noexcept { return left < 0 ? hysteresis : left; }
  [[nodiscard]] AMP_HD constexpr bool forgave() const noexcept { return left > 0; }
  [[nodiscard]] constexpr std::array<std::int64_t, 2> counters() const noexcept { return {tracker, remaining()}; }
  constexpr void set_counters(const std::array<std::int64_t, 2>& c) noexcept { tracker = c[0], left = c[1]; }
  constexpr void validate(where at) const {
    expects(usable_scale(init), "HysteresisScale: init must be positive with a finite reciprocal", at);
    expects(growth >= 1. && growth <= 0x1p64, "HysteresisScale: growth must be at least 1", at);
    expects(backoff > 0. && backoff < 1., "HysteresisScale: backoff must lie between 0 and 1", at);
    expects(interval >= 1, "HysteresisScale: interval must be at least 1", at);
    expects(hysteresis >= 1, "HysteresisScale: hysteresis must be at least 1", at);
    expects(tracker >= 0 && tracker < interval, "HysteresisScale: tracker must lie in [0, interval)", at);
    expects(left >= -1 && left <= hysteresis, "HysteresisScale: left must not be above hysteresis", at);
  }
};

static_assert(ScalePolicy<DynamicScale> && ScalePolicy<TorchScale> && ScalePolicy<HysteresisScale>);

}  // namespace amp
