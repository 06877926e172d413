/// The slow way in for LibTorch's own optimizers: torch::optim classes over fp32 masters and materialised fp32
/// gradients.
#pragma once
#include <ATen/Functions.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <amp/loss_scaler.hpp>
#include <amp/opt_level.hpp>
#include <amp/optim/clip.hpp>
#include <amp_torch/session.hpp>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace amp_torch {

namespace detail {

/// Holds an optimizer as prepared for as long as its session lives: a second session would step the first one's
/// masters. The list of them is the one thing that sessions share, and is locked.
class Prepared {
 public:
  Prepared(const torch::optim::Optimizer& optimizer, amp::where at) : optimizer_(&optimizer) {
    const std::lock_guard lock(mutex());
    amp::expects(all().insert(optimizer_).second,
                 "this optimizer is prepared already, by a session that still lives; prepare it once", at);
  }
  ~Prepared() {
    const std::lock_guard lock(mutex());
    all().erase(optimizer_);
  }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

 private:
  static std::set<const void*>& all() {
    static std::set<const void*> optimizers;
    return optimizers;
  }
  static std::mutex& mutex() {
    static std::mutex m;
    return m;
  }
  const void* optimizer_;
};

/// Calls `f(tensor)` for the tensors in the state of LibTorch's optimizers.
template <class F>
void each_state_tensor(torch::optim::OptimizerParamState& state, const F& f) {
  using namespace torch::optim;
  if (auto* s = dynamic_cast<AdamParamState*>(&state)) {
    f(s->exp_avg()), f(s->exp_avg_sq()), f(s->max_exp_avg_sq());
  } else if (auto* w = dynamic_cast<AdamWParamState*>(&state)) {
    f(w->exp_avg()), f(w->exp_avg_sq()), f(w->max_exp_avg_sq());
  } else if (auto* m = dynamic_cast<SGDParamState*>(&state)) {
    f(m->momentum_buffer());
  } else if (auto* r = dynamic_cast<RMSpropParamState*>(&state)) {
    f(r->square_avg()), f(r->momentum_buffer()), f(r->grad_avg());
  } else if (auto* a = dynamic_cast<AdagradParamState*>(&state)) {
    f(a->sum());
  }
}
/// The state of a parameter becomes its master's, in fp32.
inline void move_state(torch::optim::Optimizer& optimizer, const at::Tensor& from, const at::Tensor& to) {
  auto& states = optimizer.state();
  const auto found = states.find(from.unsafeGetTensorImpl());
  if (found == states.end()) return;
  auto state = std::move(found->second);
  states.erase(found);
  each_state_tensor(*state, [](const at::Tensor& t) { retype(t, at::kFloat); });
  states[to.unsafeGetTensorImpl()] = std::move(state);
}

}  // namespace detail

/// A session around a torch::optim optimizer, with the calls of amp::Session: scale_loss, clip_grad_norm, step,
/// zero_grad. Every step writes fp32 copies of all low gradients, which the toolkit's own optimizers do not need.
/// Low parameters in the optimizer's groups are replaced by fp32 masters; groups and their options stay.
template <amp::OptLevel L, amp::ScalePolicy Policy>
class TorchOptimSession {
  static_assert(amp::coherent<L>());

 public:
  static constexpr amp::OptLevel level = L;

  /// The module is cast already.
  /// State that the optimizer has already moves to the masters, as fp32.
  /// throws  amp::error if the optimizer is prepared already, or holds a tensor that is none of the module's parameters,
  ///         and for options that mean nothing here: several losses, other masters or moments than fp32
  TorchOptimSession(torch::nn::Module& module, torch::optim::Optimizer& optimizer, const init_options<Policy>& options,
                    amp::where at = amp::where::here())
      : prepared_(optimizer, at),
        optimizer_(&optimizer),
        scaler_(options.scale, at),
        max_consecutive_skips_(options.max_consecutive_skips),
        log_(options.log),
        any_reduce_(options.any_reduce) {
    amp::expects(options.num_losses == 1, "a session over torch::optim has one loss scale; num_losses must be 1", at);
    amp::expects(options.storage.masters == amp::masters::fp32 && options.storage.moments == amp::dtype::fp32,
                 "torch::optim steps fp32 masters and keeps its own moments; other storage needs amp::Adam or amp::Sgd",
                 at);
    for (auto& group : optimizer.param_groups()) {
      for (at::Tensor& p : group.params()) adopt(module, p, at);
    }
    if (log_) log_("torch::optim: each step materialises fp32 gradients; amp::Adam and amp::Sgd do not");
  }
  TorchOptimSession(const TorchOptimSession&) = delete;  // the optimizer's groups hold this session's masters
  TorchOptimSession& operator=(const TorchOptimSession&) = delete;

  [[nodiscard]] float loss_scale(int loss_id = 0, amp::where at = amp::where::here()) const {
    amp::expects(loss_id == 0, "a session over torch::optim has one loss scale; loss_id must be 0", at);
    return scaler_.scale();
  }
  [[nodiscard]] const amp::LossScaler<Policy>& scaler() const noexcept { return scaler_; }
  /// The first parameter whose gradient was not finite at the last check.
  [[nodiscard]] const std::string& overflow() const noexcept { return overflow_; }

  /// Steps the optimizer on the masters and rounds them into the model, or skips after an overflow.
  /// Gradients of masters are released; those of fp32 parameters stay until zero_grad.
  /// throws  amp::error on gradients that are still scaled
  amp::Verdict step(amp::where at = amp::where::here()) {
    amp::expects(!scaled_, "step() on scaled gradients: end the accumulation with a scope without delay_unscale", at);
    const bool skips = skip_;
    skip_ = false;
    if (!skips) {
      const OpCast off(at::kFloat, c10::DeviceType::CPU, false);  // no step inside of a region casts
      optimizer_->step();
    }
    const c10::AutoGradMode no_grad(false);
    for (const Pair& p : pairs_) {
      if (!p.has_master()) continue;
      if (!skips) p.param.copy_(p.master);
      p.master.mutable_grad().reset();
    }
    return skips ? amp::Verdict::skip : amp::Verdict::apply;
  }
  void zero_grad() {
    for (const Pair& p : pairs_) {
      p.param.mutable_grad().reset();
      p.master.mutable_grad().reset();
    }
    drop_stash();
    scaled_ = false;
  }

  // ---- the parts of scale_loss and clip_grad_norm; call those instead ----------------------------------------------
  /// What the gradients hold so far is unscaled, or was used: it is put aside, so that the backward writes gradients of
  /// one scale. Those of low parameters with masters lie in the masters' gradients already.
  void begin_backward(const amp::scale_options& o, amp::where at) {
    static_cast<void>(loss_scale(o.loss_id, at));
    expect_known(o.optimizers, at);
    if (scaled_) return;
    drop_stash();
    for (Pair& p : pairs_) {
      if (!p.has_master()) p.stash = p.param.grad();
      p.param.mutable_grad().reset();
    }
  }
  void end_backward(const amp::scale_options& o, amp::where at) {
    OpCast::clear_cache();
    scaled_ = o.delay_unscale;
    if (scaled_) return;
    if (!skip_) overflow_.clear();
    bool overflow = false;
    for (Pair& p : pairs_) overflow |= unscale(p);
    if (any_reduce_) overflow = any_reduce_(overflow);
    skip_ |= overflow && scaler_.skips();
    late_ |= overflow;
    if (o.delay_overflow_check) return;
    const float before = scaler_.scale();
    static_cast<void>(scaler_.update(std::exchange(late_, false)));
    if (log_ && scaler_.scale() != before) {
      log_("loss scale: " + std::to_string(before) + " -> " + std::to_string(scaler_.scale()));
    }
    if (max_consecutive_skips_ > 0 && scaler_.skips_in_a_row() >= max_consecutive_skips_) {
      throw amp::diverged(
          "diverged: every one of the last steps overflowed; the first tensor with Inf or NaN is " + overflow_,
          overflow_, at);
    }
  }
  double clip_gradients(double max_norm, const amp::clip_options& o, amp::where at) {
    amp::expects(!scaled_, "clip_grad_norm on scaled gradients: end the accumulation first", at);
    amp::expects(max_norm > 0, "clip_grad_norm: max_norm must be positive", at);
    expect_known(o.optimizers, at);
    double squares = 0;
    for (const Pair& p : pairs_) {
      if (p.master.grad().defined()) squares += std::pow(p.master.grad().norm().template item<double>(), 2);
    }
    const double norm = std::sqrt(squares);
    amp::expects(!o.error_if_nonfinite || std::isfinite(norm), "clip_grad_norm: the norm is not finite", at);
    const double factor = amp::clip_factor(norm, max_norm);
    for (const Pair& p : pairs_) {
      if (p.master.grad().defined() && factor != 1) p.master.mutable_grad().mul_(factor);
    }
    return norm;
  }

 private:
  struct Pair {
    std::string name;
    at::Tensor param, master;  ///< the same tensor where there is no master
    at::Tensor stash;          ///< unscaled gradient of the scopes before, where there is no master
    [[nodiscard]] bool has_master() const { return !param.is_same(master); }
  };

  void adopt(const torch::nn::Module& module, at::Tensor& p, amp::where at) {
    std::string name;
    for (const auto& own : module.named_parameters()) {
      if (own.value().is_same(p)) name = own.key();
    }
    amp::expects(!name.empty(), "the optimizer holds a tensor that is none of the module's parameters", at);
    static_cast<void>(to_param(name, p, at));  // refuses what cannot be stepped
    Pair pair{name, p, p, {}};
    if (L.enabled && L.master_weights && p.scalar_type() != at::kFloat) {
      pair.master = p.detach().to(at::kFloat).requires_grad_(p.requires_grad());
      detail::move_state(*optimizer_, p, pair.master);
      p = pair.master;  // the optimizer steps the master from now on
    }
    pairs_.push_back(std::move(pair));
  }
  /// Adds the gradient of this scope, unscaled, to those before; true if it is not finite.
  bool unscale(Pair& p) {
    const c10::AutoGradMode no_grad(false);
    const at::Tensor grad = p.param.grad();
    at::Tensor& sum = p.master.mutable_grad();
    const at::Tensor before = p.has_master() ? sum : std::exchange(p.stash, {});
    if (!grad.defined()) {
      sum = before;
      return false;
    }
    const bool overflow = !at::isfinite(grad).all().template item<bool>();
    if (overflow && overflow_.empty()) overflow_ = p.name;
    sum = p.has_master() ? grad.to(at::kFloat).mul_(scaler_.inverse()) : grad;
    if (!p.has_master() && scaler_.scale() != 1.F) sum.mul_(scaler_.inverse());
    if (before.defined()) sum.add_(before);
    return overflow;
  }
  void drop_stash() {
    for (Pair& p : pairs_) p.stash.reset();
  }
  static void expect_known(const std::vector<std::size_t>& optimizers, amp::where at) {
    for (const std::size_t i : optimizers)
      amp::expects(i == 0, "a session over torch::optim has one optimizer; its index must be 0", at);
  }

  detail::Prepared prepared_;
  torch::optim::Optimizer* optimizer_;
  amp::LossScaler<Policy> scaler_;
  std::int64_t max_consecutive_skips_;
  std::function<void(std::string_view)> log_;
  std::function<bool(bool)> any_reduce_;
  std::vector<Pair> pairs_;
  std::string overflow_;
  bool scaled_ = false, skip_ = false;
  bool late_ = false;  ///< an overflow whose update of the scale was delayed
};

/// The same over an optimizer of LibTorch's own, which must outlive the session.
/// Usage: `torch::optim::AdamW adam(net->parameters()); auto session = amp_torch::initialize<amp::O2>(*net, adam);`
template <amp::OptLevel L, std::derived_from<torch::nn::Module> Net, std::derived_from<torch::optim::Optimizer> Opt,
          class Options = init_options<amp::level_policy<L>>>
auto initialize(Net& module, Opt& optimizer, Options options = {}, amp::where at = amp::where::here()) {
  prepare_models<L>(std::ref(module), options, at);
  return TorchOptimSession<L, typename Options::policy_type>(module, optimizer, options, at);
}

}  // namespace amp_torch
