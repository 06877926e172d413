/// The loss scaler: a scale, moved by a policy after each step.
#pragma once
#include <amp/core/check.hpp>
#include <amp/scaling/policies.hpp>
#include <array>
#include <cstdint>
#include <type_traits>

namespace amp {

/// What becomes of a step. `deferred`: decided on a device later, under graph capture.
enum class Verdict : std::uint8_t { apply, skip, deferred };

/// amp.state_dict() of NVIDIA apex, one per scaler.
struct apex_scaler_state {
  float loss_scale;
  std::int64_t unskipped;
  friend bool operator==(const apex_scaler_state&, const apex_scaler_state&) = default;
};

/// GradScaler.state_dict() of torch.
struct torch_scaler_state {
  float scale;
  double growth_factor, backoff_factor;
  std::int64_t growth_interval, growth_tracker;
  friend bool operator==(const torch_scaler_state&, const torch_scaler_state&) = default;
};

namespace detail {
template <class P>
struct policy_counters {
  using type = std::array<std::int64_t, 0>;
};
template <class P>
requires requires(const P p) { p.counters(); }
struct policy_counters<P> {
  using type = decltype(std::declval<const P&>().counters());
};
}  // namespace detail

/// Holds the loss scale and counts skips. `update` is the one place where the scale changes.
/// Usage: `LossScaler s{DynamicScale{.window = 500}}; if (s.update(overflow) == Verdict::skip) ...`
template <ScalePolicy Policy = DynamicScale>
class LossScaler {
 public:
  /// All that a resumed run needs, bit exact: the scale, the policy's own counters, and what was counted for reports.
  struct state_type {
    float scale;
    typename detail::policy_counters<Policy>::type counters;
    std::int64_t updates, overflows, skips_in_a_row, stuck_in_a_row;
    friend bool operator==(const state_type&, const state_type&) = default;
  };

  /// throws  amp::error if a parameter of the policy is out of range
  explicit constexpr LossScaler(Policy policy = {}, where at = where::here()) : policy_(policy) {
    if constexpr (requires { policy.validate(at); }) policy.validate(at);
    scale_ = policy_.initial();
    expects(usable_scale(scale_), "LossScaler: the policy's initial() must be positive with a finite reciprocal", at);
  }

  [[nodiscard]] constexpr float scale() const noexcept { return scale_; }
  /// 1/scale, computed in fp64 and rounded once.
  [[nodiscard]] constexpr float inverse() const noexcept { return inverse_scale(scale_); }

  /// Moves the scale after the gradients of a step were checked, and says whether the step is to be done.
  constexpr Verdict update(bool overflow) noexcept {
    if constexpr (std::is_same_v<Policy, NoScale>) {
      return Verdict::apply;
    } else {
      const float before = scale_;
      scale_ = policy_.next(scale_, overflow);
      ++updates_;
      if (!overflow) {
        skips_in_a_row_ = stuck_in_a_row_ = 0;
        return Verdict::apply;
      }
      ++overflows_;
      stuck_in_a_row_ = scale_ < before ? 0 : stuck_in_a_row_ + 1;
      if (!skips()) return Verdict::apply;
      ++skips_in_a_row_;
      return Verdict::skip;
    }
  }

  /// True if an overflow skips the step under this policy.
  [[nodiscard]] constexpr bool skips() const noexcept {
    if constexpr (requires { policy_.skips_now(); }) {
      return policy_.skips_now();
    } else {
      return Policy::skips;
    }
  }

  [[nodiscard]] constexpr std::int64_t updates() const noexcept { return updates_; }
  [[nodiscard]] constexpr std::int64_t overflows() const noexcept { return overflows_; }
  [[nodiscard]] constexpr std::int64_t skips_in_a_row() const noexcept { return skips_in_a_row_; }
  /// Overflows in a row that could not lower the scale because it stands at its lower bound.
  [[nodiscard]] constexpr std::int64_t stuck_in_a_row() const noexcept { return stuck_in_a_row_; }
  [[nodiscard]] constexpr const Policy& policy() const noexcept { return policy_; }

  [[nodiscard]] constexpr state_type state() const noexcept {
    state_type s{scale_, {}, updates_, overflows_, skips_in_a_row_, stuck_in_a_row_};
    if constexpr (requires { policy_.counters(); }) s.counters = policy_.counters();
    return s;
  }
  /// throws  amp::error if the saved scale cannot be used (0, negative, not finite); the scaler is then unchanged
  constexpr void load(const state_type& s, where at = where::here()) {
    expects(usable_scale(s.scale), "LossScaler: the saved scale is 0 or not finite; start from the policy's own", at);
    scale_ = s.scale;
    updates_ = s.updates, overflows_ = s.overflows;
    skips_in_a_row_ = s.skips_in_a_row, stuck_in_a_row_ = s.stuck_in_a_row;
    if constexpr (requires { policy_.set_counters(s.counters); }) policy_.set_counters(s.counters);
  }

 private:
  float scale_ = 1.f;
  [[no_unique_address]] Policy policy_;
  std::int64_t updates_ = 0, overflows_ = 0, skips_in_a_row_ = 0, stuck_in_a_row_ = 0;
};

/// The scaler in apex's form; clean steps are 0 for a policy that counts none.
template <class Policy>
[[nodiscard]] constexpr apex_scaler_state to_apex(const LossScaler<Policy>& scaler) noexcept {
  const auto s = scaler.state();
  if constexpr (std::tuple_size_v < decltype(s.counters) >> 0) {
    return {s.scale, s.counters[0]};
  } else {
    return {s.scale, 0};
  }
}

/// Takes scale and clean counter from apex's form; what is only counted for reports starts again at 0.
/// throws  amp::error if the saved scale cannot be used
template <class Policy>
constexpr void load(LossScaler<Policy>& scaler, const apex_scaler_state& saved, where at = where::here()) {
  typename LossScaler<Policy>::state_type s{saved.loss_scale, {}, 0, 0, 0, 0};
  if constexpr (std::tuple_size_v < decltype(s.counters) >> 0) s.counters[0] = saved.unskipped;
  scaler.load(s, at);
}

/// The scaler in torch's form.
[[nodiscard]] constexpr torch_scaler_state to_torch(const LossScaler<TorchScale>& scaler) noexcept {
  const TorchScale& p = scaler.policy();
  return {scaler.scale(), p.growth, p.backoff, p.interval, p.tracker};
}

/// A scaler with everything that torch's form holds, growth and backoff too.
/// throws  amp::error if one of them is out of range
[[nodiscard]] constexpr LossScaler<TorchScale> from_torch(const torch_scaler_state& s, where at = where::here()) {
  return LossScaler{TorchScale{.init = s.scale,
                               .growth = static_cast<float>(s.growth_factor),
                               .backoff = static_cast<float>(s.backoff_factor),
                               .interval = s.growth_interval,
                               .tracker = s.growth_tracker},
                    at};
}

}  // namespace amp
