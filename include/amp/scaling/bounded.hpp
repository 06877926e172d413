/// Bounds around any loss-scale policy.
#pragma once
#include <amp/core/check.hpp>
#include <amp/core/config.hpp>
#include <amp/scaling/policy.hpp>
#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

namespace amp {

/// A policy whose scale stays in [min, max], and which counts how often a bound held it back:
/// `Bounded<TorchScale>{.policy = {.init = 1024.f}, .min = 1.f}`.
template <ScalePolicy P>
struct Bounded {
  static constexpr bool skips = P::skips;
  P policy{};
  float min = 0.f;              ///< 0: none
  float max = 0x1.fffffep127f;  ///< none
  std::int64_t at_min = 0;      ///< updates that the lower bound held back, in all
  std::int64_t at_max = 0;      ///< and the upper one

  [[nodiscard]] AMP_HD constexpr float initial() const noexcept { return inside(policy.initial()); }
  AMP_HD constexpr float next(float scale, bool overflow) noexcept {
    const float wanted = policy.next(scale, overflow);
    at_min += wanted < min ? 1 : 0;
    at_max += wanted > max ? 1 : 0;
    return inside(wanted);
  }
  [[nodiscard]] AMP_HD constexpr bool skips_now() const noexcept { return skips_on_overflow(policy); }
  [[nodiscard]] AMP_HD constexpr bool forgave() const noexcept { return forgives_overflow(policy); }

  /// Those of the policy, then `at_min` and `at_max`.
  [[nodiscard]] constexpr auto counters() const noexcept {
    std::array<std::int64_t, own + 2> all{};
    if constexpr (own > 0) {
      const auto inner = policy.counters();
      for (std::size_t i = 0; i < own; ++i) all[i] = inner[i];
    }
    all[own] = at_min, all[own + 1] = at_max;
    return all;
  }
  constexpr void set_counters(const auto& c) noexcept {
    if constexpr (own > 0) {
      auto inner = policy.counters();
      for (std::size_t i = 0; i < own; ++i) inner[i] = c[i];
      policy.set_counters(inner);
    }
    at_min = c[own], at_max = c[own + 1];
  }
  constexpr void validate(where at) const {
    if constexpr (requires { policy.validate(at); }) policy.validate(at);
    expects(min == 0.f || usable_scale(min), "Bounded: min must be 0 (none) or positive with a finite reciprocal", at);
    expects(usable_scale(max), "Bounded: max must be positive with a finite reciprocal", at);
    expects(min <= max, "Bounded: min must not be above max", at);
  }

 private:
  static constexpr std::size_t own = [] {
    if constexpr (requires(const P p) { p.counters(); }) {
      return std::tuple_size_v<decltype(std::declval<const P&>().counters())>;
    } else {
      return std::size_t{0};
    }
  }();
  [[nodiscard]] AMP_HD constexpr float inside(float s) const noexcept { return s < min ? min : s > max ? max : s; }
};

}  // namespace amp
