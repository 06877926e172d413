/// The loss scaler: a scale, moved by a policy after each step.
#pragma once
#include <amp/core/check.hpp>
#include <amp/core/config.hpp>
#include <amp/scaling/forms.hpp>
#include <amp/scaling/policies.hpp>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace amp {

/// What becomes of a step. `deferred`: decided on a device later, under graph capture.
enum class Verdict : std::uint8_t { apply, skip, deferred };

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

  [[nodiscard]] AMP_HD constexpr float scale() const noexcept { return scale_; }
  /// 1/scale, computed in fp64 and rounded once.
  [[nodiscard]] constexpr float inverse() const noexcept { return inverse_scale(scale_); }

  /// Moves the scale after the gradients of a step were checked, and says whether the step is to be done.
  AMP_HD constexpr Verdict update(bool overflow) noexcept {
    if constexpr (std::is_same_v<Policy, NoScale>) {
      return Verdict::apply;
    } else {
      const float before = scale_;
      const float next = policy_.next(scale_, overflow);
      if (usable_scale(next)) scale_ = next;  // whatever a user's policy says
      ++updates_;
      if (!overflow) {
        skips_in_a_row_ = stuck_in_a_row_ = 0;
        return Verdict::apply;
      }
      ++overflows_;
      if (!skips()) return Verdict::apply;
      stuck_in_a_row_ = scale_ < before || forgives_overflow(policy_) ? 0 : stuck_in_a_row_ + 1;
      ++skips_in_a_row_;
      return Verdict::skip;
    }
  }

  /// True if an overflow skips the step under this policy.
  [[nodiscard]] AMP_HD constexpr bool skips() const noexcept { return skips_on_overflow(policy_); }

  [[nodiscard]] constexpr std::int64_t updates() const noexcept { return updates_; }
  [[nodiscard]] constexpr std::int64_t overflows() const noexcept { return overflows_; }
  [[nodiscard]] constexpr std::int64_t skips_in_a_row() const noexcept { return skips_in_a_row_; }
  /// Overflows in a row that were to lower the scale and could not, because it stands at its lower bound. Those that
  /// the policy forgives are none, nor are those of a scale that never moves.
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

/// Takes scale and clean counter from apex's form. What that form lacks stays (a hysteresis tracker); what is only
/// counted for reports starts again at 0.
/// throws  amp::error if the saved scale cannot be used or the counter is negative; the scaler is then unchanged
template <class Policy>
constexpr void load(LossScaler<Policy>& scaler, const apex_scaler_state& saved, where at = where::here()) {
  expects(saved.unskipped >= 0, "LossScaler: the saved count of clean steps is negative", at);
  typename LossScaler<Policy>::state_type s{saved.loss_scale, scaler.state().counters, 0, 0, 0, 0};
  if constexpr (std::tuple_size_v < decltype(s.counters) >> 0) s.counters[0] = saved.unskipped;
  scaler.load(s, at);
}

namespace detail {
template <class P>
concept TorchLike = std::same_as<P, TorchScale> || std::same_as<P, HysteresisScale>;

/// A policy's numbers in torch's form.
template <TorchLike P>
[[nodiscard]] constexpr torch_scaler_state torch_state(const P& p, float scale) noexcept {
  torch_scaler_state s{scale, p.growth, p.backoff, p.interval, p.tracker};
  if constexpr (requires { p.left; }) s.hysteresis_tracker = p.remaining();
  return s;
}
/// A policy with the numbers of torch's form; what the form lacks stays.
template <TorchLike P>
[[nodiscard]] constexpr P with_torch_state(P p, const torch_scaler_state& s) {
  p.init = s.scale;
  p.growth = s.growth_factor, p.backoff = s.backoff_factor;
  p.interval = s.growth_interval, p.tracker = s.growth_tracker;
  if constexpr (requires { p.left; }) p.left = s.hysteresis_tracker.value_or(p.hysteresis);
  return p;
}
inline void refuse_foreign(const std::vector<std::string>& keys, where at) {
  expects(
      keys.empty(),
      [&] {
        std::string list;
        for (const auto& key : keys) list += (list.empty() ? "\"" : ", \"") + key + '"';
        return "the saved scalers were loaded, but these keys belong to none: " + list;
      },
      at);
}
}  // namespace detail

/// The scaler in torch's form, with the hysteresis tracker where it has one.
template <detail::TorchLike P>
[[nodiscard]] constexpr torch_scaler_state to_torch(const LossScaler<P>& scaler) noexcept {
  return detail::torch_state(scaler.policy(), scaler.scale());
}
/// The same where the policy was chosen at run time.
/// throws  amp::error if it is neither TorchScale nor HysteresisScale
[[nodiscard]] inline torch_scaler_state to_torch(const LossScaler<AnyScale>& scaler, where at = where::here()) {
  if (const auto* p = scaler.policy().as<TorchScale>()) return detail::torch_state(*p, scaler.scale());
  const auto* p = scaler.policy().as<HysteresisScale>();
  expects(p != nullptr, "torch's form needs TorchScale or HysteresisScale; this scaler has another policy", at);
  return detail::torch_state(*p, scaler.scale());
}

/// A scaler with everything that torch's form holds, growth and backoff too.
/// throws  amp::error if one of them is out of range
[[nodiscard]] constexpr LossScaler<TorchScale> from_torch(const torch_scaler_state& s, where at = where::here()) {
  return LossScaler{detail::with_torch_state(TorchScale{}, s), at};
}
/// Takes all that torch's form holds; growth, backoff and interval too, as GradScaler.load_state_dict does.
/// throws  amp::error if one of them is out of range; the scaler is then unchanged
template <class P>
requires detail::TorchLike<P> || std::same_as<P, AnyScale>
constexpr void load(LossScaler<P>& scaler, const torch_scaler_state& s, where at = where::here()) {
  if constexpr (detail::TorchLike<P>) {
    scaler = LossScaler<P>{detail::with_torch_state(scaler.policy(), s), at};
  } else {
    const auto* hysteresis = scaler.policy().template as<HysteresisScale>();
    const auto* torch = scaler.policy().template as<TorchScale>();
    expects(hysteresis != nullptr || torch != nullptr,
            "torch's form needs TorchScale or HysteresisScale; this scaler has another policy", at);
    const AnyScale policy = torch != nullptr ? AnyScale{detail::with_torch_state(*torch, s)}
                                             : AnyScale{detail::with_torch_state(*hysteresis, s)};
    scaler = LossScaler<AnyScale>{policy, at};
  }
}

/// All scalers of a run in apex's form: {"loss_scaler0": {"loss_scale": 65536.0, "unskipped": 7}, ...}.
template <class P>
[[nodiscard]] saved_dict apex_dict(std::span<const LossScaler<P>> scalers) {
  std::vector<apex_scaler_state> states;
  for (const auto& s : scalers) states.push_back(to_apex(s));
  return to_dict(states);
}
/// Loads apex's form in order. Fewer or more entries than scalers: what fits is loaded and `warn` is told.
/// throws  amp::error for an empty form; for a scale that cannot be used; after all else is loaded, for foreign keys
template <class P>
void load_apex_dict(std::span<LossScaler<P>> scalers, const saved_dict& dict,
                    const std::function<void(std::string_view)>& warn = {}, where at = where::here()) {
  const auto [states, foreign] = read_apex(dict, at);
  if (states.size() != scalers.size() && warn) {
    warn("the saved state holds " + std::to_string(states.size()) + " loss scalers, " + std::to_string(scalers.size()) +
         " are used; those that fit were loaded in order");
  }
  for (std::size_t i = 0; i < states.size() && i < scalers.size(); ++i) load(scalers[i], states[i], at);
  detail::refuse_foreign(foreign, at);
}
/// Loads GradScaler's form.
/// throws  amp::error for an empty form, for numbers out of range, and, after the rest is loaded, for foreign keys
template <class P>
requires detail::TorchLike<P> || std::same_as<P, AnyScale>
void load_torch_dict(LossScaler<P>& scaler, const saved_dict& dict, where at = where::here()) {
  const auto [state, foreign] = read_torch(dict, at);
  load(scaler, state, at);
  detail::refuse_foreign(foreign, at);
}

}  // namespace amp
