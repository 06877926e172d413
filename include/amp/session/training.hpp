/// The class behind a session: a cast model, its optimizers and its loss scalers, and the order in which they work.
#pragma once
#include <algorithm>
#include <amp/core/check.hpp>
#include <amp/loss_scaler.hpp>
#include <amp/master_weights.hpp>
#include <amp/opt_level.hpp>
#include <amp/optim/concepts.hpp>
#include <amp/optim/state.hpp>
#include <amp/session/options.hpp>
#include <amp/session/report.hpp>
#include <amp/session/slot.hpp>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace amp {

/// Model, optimizers and scalers of one training run; made by `initialize`, or by an adapter of a tensor library.
/// One scope of scale_loss, or several, then clip_grad_norm if wanted, then step, then zero_grad.
template <OptLevel L, class Model, ScalePolicy Policy, Optimizer... Opts>
class Session {
  static_assert(coherent<L>());

 public:
  static constexpr OptLevel level = L;
  static constexpr std::size_t optimizer_count = sizeof...(Opts);
  using options_type = init_options<Policy>;
  template <std::size_t I>
  using optimizer_type = MasterWeights<std::tuple_element_t<I, std::tuple<Opts...>>>;

  /// `build(model)` gives a std::tuple with a std::vector<GroupSpec<Opt>> per optimizer, after the model lies in place.
  /// throws  amp::error for options out of range and for parameters that two groups claim
  template <class Build>
  Session(Model model, options_type options, Build&& build, where at = where::here())
      : model_(std::move(model)),
        options_(std::move(options)),
        optimizers_(make_optimizers(build(model_), at, std::index_sequence_for<Opts...>{})) {
    expects(options_.num_losses >= 1, "num_losses must be at least 1", at);
    expects(options_.max_consecutive_skips >= 0, "max_consecutive_skips must be 0 (never) or positive", at);
    expect_stepped_once({}, at);
    scalers_.assign(static_cast<std::size_t>(options_.num_losses), LossScaler<Policy>(options_.scale, at));
    late_overflow_.assign(scalers_.size(), false);
    remark();
  }

  // Pinned: optimizers hold addresses of the model's tensors, and user code holds references to the model and to groups
  // across steps. A copy would step the weights of the original, a moved-from session would leave those references
  // dead.
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  [[nodiscard]] Model& model() noexcept { return model_; }
  [[nodiscard]] const Model& model() const noexcept { return model_; }

  /// The present scale of a loss; what scale_loss multiplies by. 1 in a disabled session, whatever its policy.
  /// throws  amp::error if there is no such loss
  [[nodiscard]] float loss_scale(int loss_id = 0, where at = where::here()) const {
    const float scale = scaler(loss_id, at).scale();
    return L.enabled ? scale : 1.f;
  }
  [[nodiscard]] const LossScaler<Policy>& scaler(int loss_id = 0, where at = where::here()) const {
    return scalers_[checked_loss(loss_id, at)];
  }

  /// The first tensor, in group order, whose gradient was not finite, at the last check or at the one that made the
  /// coming step a skipped one; empty if all were finite.
  [[nodiscard]] const std::string& overflow() const noexcept { return overflow_; }
  /// How many infinite and NaN elements each of those gradients has, counted when the overflow was found; nothing is
  /// counted as long as all are finite. Empty if all were finite, or if init_options::count_overflow is off.
  [[nodiscard]] const std::vector<overflow_count>& overflow_counts() const noexcept { return overflow_counts_; }
  /// How many elements of the present gradients are zero or subnormal in their format, looking at each `stride`-th:
  /// what the loss scale saves from underflow, and what it does not.
  [[nodiscard]] std::vector<underflow_count> underflow_counts(std::int64_t stride = 64, where at = where::here()) {
    expects(stride >= 1, "underflow_counts: stride must be at least 1", at);
    std::vector<underflow_count> all;
    each_optimizer(*this, [&](auto& optimizer, detail::GradSlot&) {
      for (const Param& p : optimizer.params())
        if (p.requires_grad && p.has_grad()) all.push_back(detail::count_underflow(p.grad_view(), stride));
    });
    return all;
  }
  /// Steps done and steps skipped so far; with several optimizers each counts on its own.
  [[nodiscard]] std::int64_t steps() const noexcept { return steps_; }
  [[nodiscard]] std::int64_t skipped() const noexcept { return skipped_; }

  /// The I-th optimizer: groups, learning rates, masters.
  template <std::size_t I = 0>
  [[nodiscard]] optimizer_type<I>& optimizer() noexcept {
    return std::get<I>(optimizers_);
  }
  template <std::size_t I = 0>
  [[nodiscard]] const optimizer_type<I>& optimizer() const noexcept {
    return std::get<I>(optimizers_);
  }
  /// Sets the learning rate of one group of the first optimizer.
  /// throws  amp::error if there is no such group or the rate is negative or not finite
  void set_lr(std::size_t group, double lr, where at = where::here()) { optimizer<0>().set_lr(group, lr, at); }

  /// Adds a parameter group to the I-th optimizer; its low parameters get masters.
  /// throws  amp::error while gradients of a delayed scope wait, whose scale the new ones would not share, and for a
  ///         parameter that this or another optimizer steps already; nothing is changed then
  template <std::size_t I = 0>
  void add_group(GroupSpec<std::tuple_element_t<I, std::tuple<Opts...>>> group, where at = where::here()) {
    expects(slots_[I].status != detail::grads::scaled,
            "add_group while scaled gradients wait for their sum; add it after the step", at);
    if (group.source) expect_stepped_once(group.source->refresh(), at);
    optimizer<I>().add_group(std::move(group), at);
  }
  /// Calls `fn(const MasterView&)` for each tensor that the I-th optimizer steps, with the unscaled gradient in fp32.
  /// That writes fp32 gradients out, which a step does not need (said once in the log).
  /// throws  amp::error on gradients that are still scaled, or used by a step already
  template <std::size_t I = 0, class F>
  void for_each_master(F&& fn, where at = where::here()) {
    slots_[I].expect_clippable(L.enabled, at);
    if (!std::exchange(said_materialised_, true))
      log("for_each_master writes fp32 gradients of all parameters to memory");
    optimizer<I>().for_each_master(std::forward<F>(fn), slots_[I].inverse());
  }

  /// Steps every optimizer on the gradients of the scopes before, or skips those that an overflow marked.
  /// throws  amp::error on gradients that are still scaled (delay_unscale), or if no scope came since the last step
  Verdict step(where at = where::here()) {
    for (std::size_t i = 0; i < optimizer_count; ++i) slots_[i].expect_steppable(L.enabled, at);
    bool any_skipped = false;
    for (std::size_t i = 0; i < optimizer_count; ++i) any_skipped |= step_one(i) == Verdict::skip;
    return any_skipped ? Verdict::skip : Verdict::apply;
  }
  /// Only without a loss scale: a backward inside of a step would go around scale_loss.
  template <std::invocable Closure>
  Verdict step(Closure&& closure, where at = where::here()) {
    static_assert(!level.enabled || std::is_same_v<Policy, NoScale> || std::is_same_v<Policy, AnyScale>,
                  "amp: step() takes no closure while the loss is scaled, its backward would go around scale_loss; "
                  "call scale_loss, then step()");
    expects(!level.enabled || !scales(scalers_[0]),
            "step() takes no closure while the loss is scaled; call scale_loss, then step()", at);
    std::forward<Closure>(closure)();
    return step(at);
  }
  /// Steps one optimizer.
  Verdict step_optimizer(std::size_t index, where at = where::here()) {
    expects(index < optimizer_count, "there is no such optimizer in this session", at);
    slots_[index].expect_steppable(L.enabled, at);
    return step_one(index);
  }

  /// Clears all gradients: the model's, the stash, those that wait for a delayed scope.
  void zero_grad(zeroing how = zeroing::release) {
    each_optimizer(*this, [&](auto& optimizer, detail::GradSlot& slot) {
      optimizer.zero_grad(how);
      slot.cleared();
    });
  }

  /// Everything that a resumed run needs besides the model's buffers and the options, bit exact.
  /// throws  amp::error while gradients wait for a step, which are not saved
  [[nodiscard]] StateDict state(where at = where::here()) const;
  /// throws  amp::error naming the first entry that is missing or does not fit; nothing is changed then
  void load(const StateDict& saved, where at = where::here());

  /// All scalers, one per loss; `apex_dict` and `to_torch` give their saved forms.
  [[nodiscard]] std::span<const LossScaler<Policy>> scalers() const noexcept { return scalers_; }
  /// Loads scalers from apex's form, or the only one from GradScaler's. What differs in number is told in the log.
  /// throws  amp::error as load_apex_dict and load_torch_dict do
  void load_scalers(const saved_dict& dict, where at = where::here());

  /// Sets what the optimizers step for a parameter of this name, if one steps it.
  void assign_master(std::string_view name, std::span<const float> values, where at = where::here()) {
    each_optimizer(*this, [&](auto& optimizer, detail::GradSlot&) { optimizer.assign(name, values, at); });
  }

  // ---- the parts of scale_loss and clip_grad_norm; call those instead ----------------------------------------------
  void begin_backward(const scale_options& o, where at);
  void end_backward(const scale_options& o, where at);
  double clip_gradients(double max_norm, const clip_options& o, where at);

 private:
  template <class Specs, std::size_t... I>
  auto make_optimizers(Specs specs, where at, std::index_sequence<I...>) {
    storage_options storage = options_.storage;
    if (!L.enabled || !L.master_weights) storage.masters = masters::none;
    return std::tuple<MasterWeights<Opts>...>(
        MasterWeights<Opts>(std::move(std::get<I>(specs)), storage, options_.exec, at)...);
  }

  /// throws  amp::error if two optimizers step the same memory, or one of them and the `added` parameters do
  void expect_stepped_once(std::span<const Param> added, where at) {
    std::vector<Param> all;
    each_optimizer(*this, [&](auto& optimizer, detail::GradSlot&) {
      std::ranges::move(optimizer.params(), std::back_inserter(all));
    });
    all.insert(all.end(), added.begin(), added.end());
    std::vector<const Param*> each;
    for (const Param& p : all) each.push_back(&p);
    detail::expect_apart(std::move(each), at);
  }

  template <class Self, class F>
  static void each_optimizer(Self& self, F&& f) {
    const auto all = [&]<std::size_t... I>(std::index_sequence<I...>) {
      (f(std::get<I>(self.optimizers_), self.slots_[I]), ...);
    };
    all(std::index_sequence_for<Opts...>{});
  }
  /// Calls f for the named optimizers, or for all if none is named.
  template <class F>
  void for_named(const std::vector<std::size_t>& names, where at, F&& f) {
    for (const std::size_t i : names) expects(i < optimizer_count, "there is no such optimizer in this session", at);
    std::size_t index = 0;
    each_optimizer(*this, [&](auto& optimizer, detail::GradSlot& slot) {
      bool wanted = names.empty();
      for (const std::size_t i : names) wanted |= i == index;
      if (wanted) f(optimizer, slot);
      ++index;
    });
  }

  Verdict step_one(std::size_t index) {
    Verdict verdict = Verdict::apply;
    std::size_t i = 0;
    each_optimizer(*this, [&](auto& optimizer, detail::GradSlot& slot) {
      if (i++ != index) return;
      if (slot.skip) {
        optimizer.skip();
        verdict = Verdict::skip;
        ++skipped_;
      } else {
        optimizer.step(slot.inverse(), static_cast<float>(slot.clip));
        ++steps_;
      }
      slot.spend();
    });
    return verdict;
  }

  [[nodiscard]] std::size_t checked_loss(int loss_id, where at) const {
    expects(
        loss_id >= 0 && loss_id < options_.num_losses,
        [&] {
          return "loss_id " + std::to_string(loss_id) + " with num_losses " + std::to_string(options_.num_losses) +
                 "; ask for more in init_options";
        },
        at);
    return static_cast<std::size_t>(loss_id);
  }
  void log(const std::string& line) const {
    if (options_.log) options_.log(line);
  }
  void remark() const;
  /// Whether a loss is multiplied by anything.
  [[nodiscard]] static bool scales(const LossScaler<Policy>& scaler) noexcept {
    return scaler.skips() || scaler.scale() != 1.f;
  }
  [[nodiscard]] bool needs_check(const LossScaler<Policy>& scaler) const;
  template <class Weights>
  const GradCheck& checked(Weights& optimizer, detail::GradSlot& slot);
  void count_overflow();
  void log_scale(std::size_t loss, float before, Verdict verdict) const;
  void update_scaler(std::size_t loss, bool overflow, const scale_options& o, where at);

  Model model_;
  options_type options_;
  std::tuple<MasterWeights<Opts>...> optimizers_;
  std::array<detail::GradSlot, sizeof...(Opts)> slots_{};
  std::vector<LossScaler<Policy>> scalers_;
  std::vector<bool> late_overflow_;  // found under delay_overflow_check, for the next update of that loss
  std::string overflow_;
  std::vector<overflow_count> overflow_counts_;
  std::int64_t steps_ = 0, skipped_ = 0;
  bool said_materialised_ = false;
};

}  // namespace amp
