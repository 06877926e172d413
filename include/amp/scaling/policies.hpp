/// Loss-scale policies: where the scale starts, what follows a clean step or an overflow, whether an overflow skips.
#pragma once
#include <amp/core/check.hpp>
#include <amp/core/config.hpp>
#include <array>
#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>

namespace amp {

/// A policy is a value. `skips` false: an overflow is reported and the step is done all the same.
/// `next` is noexcept because the decision may run on a device, where nothing can be thrown.
/// Optional members: `validate(where)` throws amp::error on parameters out of range; `counters()` and
/// `set_counters(array)` name what has to be saved besides the scale; `skips_now()` refines `skips` at run time.
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
[[nodiscard]] constexpr float inverse_scale(float s) noexcept {
  return static_cast<float>(1.0 / static_cast<double>(s));
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

/// The rules of torch.amp.GradScaler: multiply by `backoff` and skip after an overflow, by `growth` after `interval`
/// clean steps, unless that is not finite. No bounds: the scale may fall below 1.
struct TorchScale {
  static constexpr bool skips = true;
  float init = 0x1p16f;          ///< GradScaler init_scale
  float growth = 2.f;            ///< growth_factor
  float backoff = 0.5f;          ///< backoff_factor
  std::int64_t interval = 2000;  ///< growth_interval
  std::int64_t tracker = 0;      ///< _growth_tracker: clean steps since the last change

  [[nodiscard]] AMP_HD constexpr float initial() const noexcept { return init; }
  AMP_HD constexpr float next(float scale, bool overflow) noexcept {
    if (overflow) {
      tracker = 0;
      const float lower = scale * backoff;
      return usable_scale(lower) ? lower : scale;
    }
    if (++tracker < interval) return scale;
    tracker = 0;
    constexpr double overflow_to_inf = 0x1.ffffffp127;
    if (static_cast<double>(scale) * growth >= overflow_to_inf) return scale;
    return usable_scale(scale * growth) ? scale * growth : scale;
  }
  [[nodiscard]] constexpr std::array<std::int64_t, 1> counters() const noexcept { return {tracker}; }
  constexpr void set_counters(const std::array<std::int64_t, 1>& c) noexcept { tracker = c[0]; }
  constexpr void validate(where at) const {
    expects(usable_scale(init), "TorchScale: init must be positive with a finite reciprocal", at);
    expects(growth > 1.f && growth <= 0x1p64f, "TorchScale: growth must be above 1", at);
    expects(backoff > 0.f && backoff < 1.f, "TorchScale: backoff must lie between 0 and 1", at);
    expects(interval >= 1, "TorchScale: interval must be at least 1", at);
    expects(tracker >= 0 && tracker < interval, "TorchScale: tracker must lie in [0, interval)", at);
  }
};

/// A policy chosen at run time that is itself a policy: `AnyScale{StaticScale{128.f}}`.
class AnyScale {
  // Not std::visit: it may throw on a valueless variant, which a variant of trivially copyable types never is.
  template <class Self, class F>
  static constexpr auto visit(Self& self, F&& f) {
    if (auto* p = std::get_if<DynamicScale>(&self.held_)) return f(*p);
    if (auto* p = std::get_if<TorchScale>(&self.held_)) return f(*p);
    if (auto* p = std::get_if<StaticScale>(&self.held_)) return f(*p);
    return f(*std::get_if<NoScale>(&self.held_));
  }

 public:
  static constexpr bool skips = true;  // may skip; skips_now() says whether the policy held does

  constexpr AnyScale() = default;
  template <class P>
  requires(!std::same_as<P, AnyScale> && ScalePolicy<P>) constexpr AnyScale(P policy) noexcept
      : held_(policy) {}  // NOLINT: conversion is the purpose

  [[nodiscard]] constexpr float initial() const noexcept {
    return visit(*this, [](const auto& p) { return p.initial(); });
  }
  constexpr float next(float scale, bool overflow) noexcept {
    return visit(*this, [&](auto& p) { return p.next(scale, overflow); });
  }
  [[nodiscard]] constexpr bool skips_now() const noexcept {
    return visit(*this, [](const auto& p) { return p.skips; });
  }
  [[nodiscard]] constexpr std::array<std::int64_t, 1> counters() const noexcept {
    return visit(*this, [](const auto& p) {
      if constexpr (requires { p.counters(); }) {
        return p.counters();
      } else {
        return std::array<std::int64_t, 1>{0};
      }
    });
  }
  constexpr void set_counters(const std::array<std::int64_t, 1>& c) noexcept {
    visit(*this, [&](auto& p) {
      if constexpr (requires { p.set_counters(c); }) p.set_counters(c);
    });
  }
  constexpr void validate(where at) const {
    visit(*this, [&](const auto& p) {
      if constexpr (requires { p.validate(at); }) p.validate(at);
    });
  }
  /// The policy held, or null if it is of another kind.
  template <ScalePolicy P>
  [[nodiscard]] constexpr const P* as() const noexcept {
    return std::get_if<P>(&held_);
  }

 private:
  std::variant<NoScale, StaticScale, DynamicScale, TorchScale> held_;
};

static_assert(ScalePolicy<NoScale> && ScalePolicy<StaticScale> && ScalePolicy<DynamicScale> &&
              ScalePolicy<TorchScale> && ScalePolicy<AnyScale>);

}  // namespace amp
