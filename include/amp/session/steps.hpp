/// The work of a session around a backward pass.
#pragma once
#include <algorithm>
#include <amp/fn/count_nonfinite.hpp>
#include <amp/optim/clip.hpp>
#include <amp/session.hpp>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace amp {

namespace detail {
/// A policy's counters. Fewer than it has are taken: a policy chosen at run time once had one.
template <std::size_t N>
void load_counters(const StateDict& saved, const std::string& key, std::array<std::int64_t, N>& to, where at) {
  const auto it = saved.find(key);
  const std::size_t count = it == saved.end() ? N : std::min(N, it->second.bytes.size() / sizeof(std::int64_t));
  load_values<std::int64_t>(saved, key, std::span(to.data(), count), at);
}
}  // namespace detail

/// Before a backward: whatever the gradients hold that belongs to another scale is put aside, so that the backward
/// writes gradients of one scale.
template <OptLevel L, class Model, ScalePolicy Policy, Optimizer... Opts>
void Session<L, Model, Policy, Opts...>::begin_backward(const scale_options& o, where at) {
  const float scale = loss_scale(o.loss_id, at);
  for_named(o.optimizers, at, [&](auto&, detail::GradSlot& slot) {
    expects(
        slot.status != detail::grads::scaled || slot.scale == scale,
        [&] {
          return "gradients of scale " + detail::number(slot.scale) + " wait for their sum, this loss has scale " +
                 detail::number(scale) + "; end the delayed scopes of one loss before another begins";
        },
        at);
  });
  for_named(o.optimizers, at, [&](auto& optimizer, detail::GradSlot& slot) {
    const bool clipped = slot.clip != 1.;
    switch (slot.status) {
      case detail::grads::scaled:
        return;
      case detail::grads::zeroed:
        if (!clipped) return;
        [[fallthrough]];
      case detail::grads::ready:
        optimizer.stash(slot.inverse(), true);
        break;
      case detail::grads::fresh:
      case detail::grads::spent:
        optimizer.stash(slot.inverse(), false);
        break;
    }
    if (clipped) optimizer.scale_stash(slot.clip);  // it was chosen for all that is there now
    slot.cleared();
  });
}

/// After a backward: one look at the gradients, the scale's next value, the verdict on the coming step.
template <OptLevel L, class Model, ScalePolicy Policy, Optimizer... Opts>
void Session<L, Model, Policy, Opts...>::end_backward(const scale_options& o, where at) {
  const std::size_t loss = checked_loss(o.loss_id, at);
  const float scale = scalers_[loss].scale();
  if (options_.after_backward) options_.after_backward();
  // The name of a bad tensor stays until the step that it cancels.
  if (std::none_of(slots_.begin(), slots_.end(), [](const detail::GradSlot& slot) { return slot.skip; }))
    overflow_.clear(), overflow_counts_.clear();
  for_named(o.optimizers, at, [&](auto&, detail::GradSlot& slot) {
    slot.fill(o.delay_unscale ? detail::grads::scaled : detail::grads::ready, scale);
  });
  if (o.delay_unscale || !needs_check(scalers_[loss])) return;
  bool overflow = false;
  for_named(o.optimizers, at, [&](auto& optimizer, detail::GradSlot& slot) {
    if (checked(optimizer, slot).overflow) overflow = true;
  });
  if (overflow && options_.count_overflow) count_overflow();
  if (options_.any_reduce) overflow = options_.any_reduce(overflow);
  update_scaler(loss, overflow, o, at);
}

/// Nothing is looked at where nothing could follow from it: without scaling, and at a constant scale of 1 without
/// masters.
template <OptLevel L, class Model, ScalePolicy Policy, Optimizer... Opts>
bool Session<L, Model, Policy, Opts...>::needs_check(const LossScaler<Policy>& scaler) const {
  if constexpr (std::is_same_v<Policy, NoScale>) return false;
  if constexpr (std::is_same_v<Policy, AnyScale>) {
    if (scaler.policy().template as<NoScale>() != nullptr) return false;
  }
  return scaler.skips() || scaler.scale() != 1.f || L.master_weights;
}

template <OptLevel L, class Model, ScalePolicy Policy, Optimizer... Opts>
template <class Weights>
const GradCheck& Session<L, Model, Policy, Opts...>::checked(Weights& optimizer, detail::GradSlot& slot) {
  if (slot.checked) return slot.check;
  slot.check = optimizer.check(slot.inverse());
  slot.checked = slot.status == detail::grads::ready;  // gradients that no scope announced may change unseen
  if (overflow_.empty() || !slot.checked) overflow_ = slot.check.first_bad;
  return slot.check;
}

template <OptLevel L, class Model, ScalePolicy Policy, Optimizer... Opts>
void Session<L, Model, Policy, Opts...>::count_overflow() {
  overflow_counts_.clear();
  each_optimizer(*this, [&](auto& optimizer, detail::GradSlot& slot) {
    if (!slot.checked || !slot.check.overflow) return;
    std::vector<tensor_view> grads;
    const std::vector<Param> params = optimizer.params();  // views hold its names
    for (const Param& p : params)
      if (p.requires_grad && p.has_grad()) grads.push_back(p.grad_view());
    const nonfinite_counts found = fn::count_nonfinite(options_.exec, tensor_list(grads));
    for (std::size_t i = 0; i < grads.size(); ++i)
      if (found.inf[i] + found.nan[i] > 0)
        overflow_counts_.push_back({std::string(grads[i].name), found.inf[i], found.nan[i]});
  });
}

/// One line per change of a scale, and one when a bound holds it back again and again.
template <OptLevel L, class Model, ScalePolicy Policy, Optimizer... Opts>
void Session<L, Model, Policy, Opts...>::log_scale(std::size_t loss, float before, Verdict verdict) const {
  const LossScaler<Policy>& scaler = scalers_[loss];
  const std::string name = "loss scale " + std::to_string(loss) + ": ";
  if (scaler.scale() != before) {
    log(name + detail::number(before) + " -> " + detail::number(scaler.scale()) +
        (verdict == Verdict::skip
             ? ", step skipped, first overflow in " + (overflow_.empty() ? "another rank" : overflow_)
             : ", no overflow in a whole window"));
  }
  constexpr std::int64_t often = 10;
  if (scaler.skips() && scaler.stuck_in_a_row() > 0 && scaler.stuck_in_a_row() % often == 0) {
    log(name + std::to_string(scaler.stuck_in_a_row()) + " overflows in a row could not lower it below " +
        detail::number(scaler.scale()));
  }
}

template <OptLevel L, class Model, ScalePolicy Policy, Optimizer... Opts>
void Session<L, Model, Policy, Opts...>::update_scaler(std::size_t loss, bool overflow, const scale_options& o,
                                                       where at) {
  LossScaler<Policy>& scaler = scalers_[loss];
  // An overflow of an earlier scope moves the scale now; its own optimizers were told to skip then.
  if (overflow && scaler.skips()) for_named(o.optimizers, at, [](auto&, detail::GradSlot& slot) { slot.skip = true; });
  if (o.delay_overflow_check) {
    late_overflow_[loss] = late_overflow_[loss] || overflow;
    if (!overflow || !scaler.skips()) return;
  } else {
    const float before = scaler.scale();
    const Verdict verdict = scaler.update(overflow || late_overflow_[loss]);
    late_overflow_[loss] = false;
    log_scale(loss, before, verdict);
    if (verdict != Verdict::skip) return;
  }
  const std::int64_t limit = options_.max_consecutive_skips;
  if (limit == 0 || scaler.skips_in_a_row() < limit) return;
  throw diverged("diverged: " + std::to_string(scaler.skips_in_a_row()) +
                     " steps in a row overflowed, at last at loss scale " + detail::number(scaler.scale()) +
                     (scaler.stuck_in_a_row() > 0 ? " (its lower bound; allow a smaller min)" : "") +
                     "; the first tensor with Inf or NaN is " + overflow_,
                 overflow_, at);
}

template <OptLevel L, class Model, ScalePolicy Policy, Optimizer... Opts>
double Session<L, Model, Policy, Opts...>::clip_gradients(double max_norm, const clip_options& o, where at) {
  expects(max_norm > 0., "clip_grad_norm: max_norm must be positive; leave the call out for no clipping", at);
  double squares = 0.;
  for_named(o.optimizers, at, [&](auto&, detail::GradSlot& slot) { slot.expect_clippable(L.enabled, at); });
  for_named(o.optimizers, at, [&](auto& optimizer, detail::GradSlot& slot) {
    const double looked = checked(optimizer, slot).norm;  // names the first bad tensor too
    const double norm = (optimizer.has_stash() ? optimizer.norm(slot.inverse()) : looked) * slot.clip;
    squares += norm * norm;
  });
  const double norm = std::sqrt(squares);
  expects(
      !o.error_if_nonfinite || std::isfinite(norm),
      [&] { return "clip_grad_norm: the norm is not finite; the first tensor with Inf or NaN is " + overflow_; }, at);
  const double factor = clip_factor(norm, max_norm);
  for_named(o.optimizers, at, [&](auto&, detail::GradSlot& slot) { slot.clip *= factor; });
  return norm;
}

/// Says once, at the start, what a user may not have meant.
template <OptLevel L, class Model, ScalePolicy Policy, Optimizer... Opts>
void Session<L, Model, Policy, Opts...>::remark() const {
  if constexpr (!L.enabled) return;
  const bool scaled = scales(scalers_[0]);
  if (L.compute == dtype::fp16 && !scaled)
    log("fp16 without loss scaling: gradients below 2^-24 become 0; consider scaling::dynamic");
  if (L.compute == dtype::bf16 && scaled) log("bf16 has fp32's exponent range: loss scaling is not needed");
  if (L.cast == casting::model && !L.master_weights)
    log("no master weights: updates below half a unit of a " + std::string(name(L.compute)) + " weight are lost");
}

template <OptLevel L, class Model, ScalePolicy Policy, Optimizer... Opts>
StateDict Session<L, Model, Policy, Opts...>::state(where at) const {
  StateDict saved;
  for (const bool late : late_overflow_)
    expects(!late, "state() while an overflow waits for its update (delay_overflow_check); save after that", at);
  std::size_t index = 0;
  each_optimizer(*this, [&](const auto& optimizer, const detail::GradSlot& slot) {
    expects(slot.status != detail::grads::scaled && slot.status != detail::grads::ready,
            "state() while gradients wait for a step; save after step()", at);
    optimizer.save(saved, "optimizer." + std::to_string(index++) + '.');
  });
  for (std::size_t i = 0; i < scalers_.size(); ++i) {
    const auto s = scalers_[i].state();
    const std::string key = "scaler." + std::to_string(i) + '.';
    save_value<float>(saved, key + "scale", s.scale);
    const std::vector<std::int64_t> counts{s.updates, s.overflows, s.skips_in_a_row, s.stuck_in_a_row};
    save_values<std::int64_t>(saved, key + "counts", counts, {4});
    save_values<std::int64_t>(saved, key + "policy", s.counters, {static_cast<std::int64_t>(s.counters.size())});
  }
  save_value<std::int64_t>(saved, "steps", steps_);
  save_value<std::int64_t>(saved, "skipped", skipped_);
  return saved;
}

template <OptLevel L, class Model, ScalePolicy Policy, Optimizer... Opts>
void Session<L, Model, Policy, Opts...>::load(const StateDict& saved, where at) {
  auto scalers = scalers_;  // copies: nothing is changed unless all fits
  for (std::size_t i = 0; i < scalers.size(); ++i) {
    const std::string key = "scaler." + std::to_string(i) + '.';
    auto s = scalers[i].state();
    std::vector<std::int64_t> counts(4);
    s.scale = load_value<float>(saved, key + "scale", at);
    load_values<std::int64_t>(saved, key + "counts", counts, at);
    detail::load_counters(saved, key + "policy", s.counters, at);
    s.updates = counts[0], s.overflows = counts[1], s.skips_in_a_row = counts[2], s.stuck_in_a_row = counts[3];
    scalers[i].load(s, at);
  }
  const auto steps = load_value<std::int64_t>(saved, "steps", at);
  const auto skipped = load_value<std::int64_t>(saved, "skipped", at);
  std::size_t index = 0;
  each_optimizer(*this, [&](auto& optimizer, detail::GradSlot&) {
    optimizer.expect_loadable(saved, "optimizer." + std::to_string(index++) + '.', at);
  });
  index = 0;
  each_optimizer(*this, [&](auto& optimizer, detail::GradSlot& slot) {
    optimizer.load(saved, "optimizer." + std::to_string(index++) + '.', at);
    slot = {};
  });
  scalers_ = std::move(scalers);
  late_overflow_.assign(scalers_.size(), false);
  overflow_.clear(), overflow_counts_.clear();
  steps_ = steps, skipped_ = skipped;
}

template <OptLevel L, class Model, ScalePolicy Policy, Optimizer... Opts>
void Session<L, Model, Policy, Opts...>::load_scalers(const saved_dict& dict, where at) {
  if constexpr (requires { load_torch_dict(scalers_[0], dict, at); }) {
    if (find(dict, "scale") != nullptr) {
      expects(scalers_.size() == 1, "GradScaler's form holds one scaler, this session has several", at);
      load_torch_dict(scalers_[0], dict, at);
      return;
    }
  }
  load_apex_dict(
      std::span(scalers_), dict, [this](std::string_view line) { log(std::string(line)); }, at);
}

template <OptLevel L, class Net, class Opt, class Options>
auto initialize(Net network, Opt optimizers, Options options, where at) {
  static_assert(coherent<L>());
  if constexpr (L.enabled && L.cast == casting::model) {
    if (!options.allow_low) detail::expect_fp32(network, at);
  }
  auto cast = detail::cast_network<L>(std::move(network));
  auto rules = [&] {
    if constexpr (detail::is_tuple<Opt>) {
      return std::apply([](auto&... one) { return std::tuple{detail::groups_by_rule(std::move(one))...}; }, optimizers);
    } else {
      return std::tuple{detail::groups_by_rule(std::move(optimizers))};
    }
  }();
  return [&]<class... Opts>(std::tuple<std::vector<Group<Opts>>...>& groups) {
    const auto build = [&](auto& model) {
      std::vector<Param> left;
      detail::collect_parameters(model, left);
      // Braces: the groups claim in order.
      return std::apply(
          [&](auto&... g) { return std::tuple<std::vector<GroupSpec<Opts>>...>{detail::claim(std::move(g), left)...}; },
          groups);
    };
    return Session<L, decltype(cast), typename Options::policy_type, Opts...>(std::move(cast), std::move(options),
                                                                              build, at);
  }(rules);
}

}  // namespace amp
