/// A loss-scale policy chosen at run time.
#pragma once
#include <amp/core/check.hpp>
#include <amp/scaling/dynamic.hpp>
#include <amp/scaling/policy.hpp>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <variant>

namespace amp {

/// A policy chosen at run time that is itself a policy: `AnyScale{StaticScale{128.f}}`. With bounds:
/// `Bounded<AnyScale>{.policy = TorchScale{}, .min = 1.f}`.
class AnyScale {
  // Not std::visit: it may throw on a valueless variant, which a variant of trivially copyable types never is.
  template <class Self, class F>
  static constexpr auto visit(Self& self, F&& f) {
    if (auto* p = std::get_if<DynamicScale>(&self.held_)) return f(*p);
    if (auto* p = std::get_if<TorchScale>(&self.held_)) return f(*p);
    if (auto* p = std::get_if<HysteresisScale>(&self.held_)) return f(*p);
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
  [[nodiscard]] constexpr bool forgave() const noexcept {
    return visit(*this, [](const auto& p) { return forgives_overflow(p); });
  }
  /// The counters of the policy held; 0 where it has fewer than two.
  [[nodiscard]] constexpr std::array<std::int64_t, 2> counters() const noexcept {
    return visit(*this, [](const auto& p) {
      std::array<std::int64_t, 2> all{};
      if constexpr (requires { p.counters(); }) {
        const auto own = p.counters();
        for (std::size_t i = 0; i < own.size(); ++i) all[i] = own[i];
      }
      return all;
    });
  }
  constexpr void set_counters(const std::array<std::int64_t, 2>& c) noexcept {
    visit(*this, [&](auto& p) {
      if constexpr (requires { p.counters(); }) {
        auto own = p.counters();
        for (std::size_t i = 0; i < own.size(); ++i) own[i] = c[i];
        p.set_counters(own);
      }
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
  std::variant<NoScale, StaticScale, DynamicScale, TorchScale, HysteresisScale> held_;
};

static_assert(ScalePolicy<AnyScale>);

}  // namespace amp
