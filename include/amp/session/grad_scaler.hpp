/// The protocol of torch's GradScaler: scale, unscale, step and update as separate calls, their order checked.
#pragma once
#include <algorithm>
#include <amp/core/check.hpp>
#include <amp/loss_scaler.hpp>
#include <amp/master_weights.hpp>
#include <amp/optim/clip.hpp>
#include <amp/session/options.hpp>
#include <amp/tensor/param.hpp>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace amp {

/// What GradScaler works with; MasterWeights<Opt> is one.
///   check(inv_scale)       looks at the gradients: norm of the unscaled ones, and whether all are finite
///   step(inv_scale, clip)  steps on gradients * inv_scale * clip
///   skip()                 forgets what was put aside
template <class O>
concept ScaledOptimizer = requires(O& o, float factor) {
  { o.check(factor) } -> std::convertible_to<GradCheck>;
  o.step(factor, factor);
  o.skip();
};
/// One that unscales and skips by itself, in its own kernel, and is never skipped here: it gets what its gradients are
/// to be divided by (the scale, over the factor of clipping where there is one) and the flag.
template <class O>
concept SelfScaledOptimizer = requires(O& o, float grad_scale, bool found_inf) {
  { o.check(grad_scale) } -> std::convertible_to<GradCheck>;
  o.step_scaled(grad_scale, found_inf);
};

/// Options of GradScaler.
template <ScalePolicy Policy = TorchScale>
struct grad_scaler_options {
  using policy_type = Policy;
  Policy scale = {};
  bool enabled = true;                        ///< false: every call does nothing, step is the plain step
  bool allow_fp16 = false;                    ///< accept fp16 gradients of fp16 parameters without masters (O3)
  std::function<bool(bool)> any_reduce = {};  ///< as in init_options
};

/// One loss scale for any number of losses and optimizers. Per iteration: `scale` each loss and run its backward, then
/// for each optimizer `unscale` (only where gradients are to be looked at or clipped) and `step`, then `update` once.
/// Gradients stay in memory as the backward wrote them: unscaling is a factor that the step folds in. Gradients that
/// are spoiled after `unscale` are not detected, as in torch. Usage: `amp::GradScaler scaler;
/// backward(scaler.scale(loss)); scaler.step(weights); scaler.update();`
/// source  torch.amp.GradScaler
template <ScalePolicy Policy = TorchScale>
class GradScaler {
 public:
  /// throws  amp::error if a parameter of the policy is out of range
  explicit GradScaler(grad_scaler_options<Policy> options = {}, where at = where::here())
      : options_(std::move(options)), scaler_(options_.scale, at) {}

  /// The loss in fp32, times the scale; as it is if disabled.
  template <class Loss>
  [[nodiscard]] auto scale(const Loss& loss) {
    scaled_ = true;
    using Scaled = decltype(loss_traits<Loss>::scaled(loss, 1.f));
    return options_.enabled ? loss_traits<Loss>::scaled(loss, scaler_.scale()) : Scaled(loss);
  }

  /// Looks at the gradients of one optimizer: norm of the unscaled ones, first bad tensor.
  /// throws  amp::error before any `scale`, a second time before `update`, after the step, and for fp16 gradients of
  ///         parameters without masters
  template <class Opt>
  requires ScaledOptimizer<Opt> || SelfScaledOptimizer<Opt> GradCheck unscale(Opt& optimizer,
                                                                              where at = where::here()) {
    if (!options_.enabled) return {};
    Seen& seen = of(optimizer);
    expects(scaled_, "unscale() before scale(): the gradients belong to no scale", at);
    expects(seen.stage != progress::unscaled, "unscale() twice on one optimizer since the last update()", at);
    expects(seen.stage != progress::stepped, "unscale() after step(): these gradients were used already", at);
    look(optimizer, seen, at);
    seen.stage = progress::unscaled;
    return seen.check;
  }
  /// Makes the step of this optimizer use gradients whose norm is at most `max_norm`; returns the norm before.
  /// throws  amp::error unless `unscale` came before and `step` not yet, or for a `max_norm` that is not positive
  template <class Opt>
  requires ScaledOptimizer<Opt> || SelfScaledOptimizer<Opt>
  double clip_grad_norm(Opt& optimizer, double max_norm, where at = where::here()) {
    expects(max_norm > 0., "clip_grad_norm: max_norm must be positive; leave the call out for no clipping", at);
    Seen& seen = of(optimizer);
    if (options_.enabled) {
      expects(seen.stage == progress::unscaled,
              "clip_grad_norm between unscale() and step(): else it sees scaled gradients", at);
    } else {
      seen.check = optimizer.check(1.f);
    }
    const double norm = seen.check.norm * seen.clip;
    seen.clip *= clip_factor(norm, max_norm);
    return norm;
  }

  /// Steps one optimizer, or skips it if one of its gradients is not finite.
  /// throws  amp::error before any `scale`, a second time before `update`, and, where no `unscale` came before, for fp16
  ///         gradients of parameters without masters
  template <class Opt>
  requires ScaledOptimizer<Opt> || SelfScaledOptimizer<Opt> Verdict step(Opt& optimizer, where at = where::here()) {
    Seen& seen = of(optimizer);
    if (!options_.enabled) {
      if constexpr (SelfScaledOptimizer<Opt>) {
        optimizer.step_scaled(static_cast<float>(1. / std::exchange(seen.clip, 1.)), false);
      } else {
        optimizer.step(1.f, static_cast<float>(std::exchange(seen.clip, 1.)));
      }
      return Verdict::apply;
    }
    expects(scaled_, "step() before scale(): the gradients belong to no scale", at);
    expects(seen.stage != progress::stepped, "step() twice on one optimizer since the last update()", at);
    const bool unscaled = seen.stage == progress::unscaled;
    if (!unscaled) look(optimizer, seen, at);
    seen.stage = progress::stepped;
    if constexpr (SelfScaledOptimizer<Opt>) {
      optimizer.step_scaled(static_cast<float>(static_cast<double>(scaler_.scale()) / seen.clip), seen.check.overflow);
      return Verdict::apply;
    } else {
      if (seen.check.overflow && scaler_.skips()) {
        optimizer.skip();
        return Verdict::skip;
      }
      optimizer.step(scaler_.inverse(), static_cast<float>(seen.clip));
      return Verdict::apply;
    }
  }
  /// A closure would run a backward that goes around `scale`.
  template <class Opt, std::invocable Closure>
  Verdict step(Opt&, Closure&&, where = where::here()) = delete;

  /// Moves the scale: back if any optimizer's gradients were not finite; or sets it to `scale`.
  /// throws  amp::error if no optimizer was looked at since the last update, or for a scale that cannot be used
  void update(std::optional<float> scale = {}, where at = where::here()) {
    if (!options_.enabled) return;
    if (scale) {
      auto s = scaler_.state();
      s.scale = *scale;
      scaler_.load(s, at);
    } else {
      const auto checked = [](const Seen& s) { return s.stage != progress::ready; };
      expects(std::any_of(seen_.begin(), seen_.end(), checked),
              "update() with no recorded check: step() or unscale() comes first", at);
      const auto bad = [](const Seen& s) { return s.check.overflow; };
      (void)scaler_.update(std::any_of(seen_.begin(), seen_.end(), bad));
    }
    seen_.clear();
    scaled_ = false;
  }

  [[nodiscard]] float scale() const noexcept { return options_.enabled ? scaler_.scale() : 1.f; }
  [[nodiscard]] bool enabled() const noexcept { return options_.enabled; }
  [[nodiscard]] const LossScaler<Policy>& scaler() const noexcept { return scaler_; }

  /// GradScaler.state_dict(), for policies that have that form; empty if disabled. Save after `update`.
  [[nodiscard]] saved_dict state_dict() const { return options_.enabled ? to_dict(to_torch(scaler_)) : saved_dict{}; }
  /// throws  amp::error for an empty form (a disabled scaler's), numbers out of range, and foreign keys;
  ///         nothing happens if disabled
  void load_state_dict(const saved_dict& dict, where at = where::here()) {
    if (options_.enabled) load_torch_dict(scaler_, dict, at);
  }

 private:
  enum class progress : std::uint8_t { ready, unscaled, stepped };
  struct Seen {
    const void* optimizer;
    progress stage = progress::ready;
    GradCheck check{};
    double clip = 1.;
  };

  [[nodiscard]] Seen& of(const auto& optimizer) {
    const void* key = &optimizer;
    const auto it = std::find_if(seen_.begin(), seen_.end(), [&](const Seen& s) { return s.optimizer == key; });
    return it != seen_.end() ? *it : seen_.emplace_back(Seen{key});
  }
  template <class Opt>
  void look(Opt& optimizer, Seen& seen, where at) const {
    if constexpr (requires {
                    optimizer.params();
                    optimizer.master_bytes();
                  }) {
      if (!options_.allow_fp16 && optimizer.master_bytes() == 0) expect_no_fp16(optimizer.params(), at);
    }
    seen.check = optimizer.check(scaler_.inverse());
    if (options_.any_reduce) seen.check.overflow = options_.any_reduce(seen.check.overflow);
  }
  static void expect_no_fp16(const std::vector<Param>& params, where at) {
    for (const Param& p : params) {
      expects(
          !p.has_grad() || p.grad_type != dtype::fp16 || p.type != dtype::fp16,
          [&] {
            return "the gradient of " + p.name +
                   " is fp16 and its parameter has no fp32 master (O3): use master weights, or set allow_fp16";
          },
          at);
    }
  }

  grad_scaler_options<Policy> options_;
  LossScaler<Policy> scaler_;
  std::vector<Seen> seen_;
  bool scaled_ = false;
};

}  // namespace amp
