/// fp32 master weights around an optimizer: one reading pass that checks, one pass that steps.
#pragma once
#include <algorithm>
#include <amp/core/check.hpp>
#include <amp/fn/copy.hpp>
#include <amp/fn/l2norm.hpp>
#include <amp/half_traits.hpp>
#include <amp/multi_tensor_apply.hpp>
#include <amp/optim/concepts.hpp>
#include <amp/optim/executor.hpp>
#include <amp/optim/group_state.hpp>
#include <amp/optim/param_source.hpp>
#include <amp/optim/state.hpp>
#include <amp/optim/storage.hpp>
#include <amp/tensor/list.hpp>
#include <amp/tensor/param.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

namespace amp {

/// What one look at the gradients found.
struct GradCheck {
  double norm = 0.;         ///< 2-norm of the unscaled gradients, over all groups and formats
  bool overflow = false;    ///< an element is infinite or NaN
  std::string first_bad{};  ///< the first tensor with one, in group order
};

/// One trained tensor as the optimizer sees it.
struct MasterView {
  std::string_view name;
  std::span<const float> value;  ///< the master, or the fp32 parameter itself
  std::span<const float> grad;   ///< unscaled; empty where there is no gradient
};

/// One moment of one trained tensor.
struct MomentView {
  std::string_view name;         ///< of the parameter
  std::string_view moment;       ///< "exp_avg"
  std::span<const float> value;  ///< in fp32, whatever it is stored in
};

/// Steps parameter groups in fp32. A low parameter has a master, in one of the forms of storage_options: the gradient
/// is read in its own format, times the folded factor, and the stepped master is rounded into the parameter in the same
/// pass. fp32 parameters are stepped in place. Without masters (O3) low parameters are widened, stepped and rounded.
/// Usage: `if (!m.check(inv_scale).overflow) m.step(inv_scale, clip); m.zero_grad();`
/// source  Micikevicius et al. 2018 (arXiv:1710.03740), section 3.1; order of work: NVIDIA apex amp
template <Optimizer Opt>
class MasterWeights {
 public:
  using optimizer_type = Opt;
  using group_type = typename Opt::group;

  /// throws  amp::error for options out of range, repeated names, or a parameter that two groups hold
  MasterWeights(std::vector<GroupSpec<Opt>> groups, const storage_options& storage,
                exec::any executor = exec::vectorized{}, where at = where::here())
      : storage_(storage), exec_(std::move(executor)) {
    storage_.validate(at);
    if (storage_.scales == scale_per::block) exec_.chunk = apply::stored_chunk(exec_.chunk);
    for (auto& spec : groups) add_group(std::move(spec), at);
  }
  /// fp32 masters, or none.
  explicit MasterWeights(std::vector<GroupSpec<Opt>> groups, bool masters = true,
                         exec::any executor = exec::vectorized{}, where at = where::here())
      : MasterWeights(std::move(groups), storage_options{.masters = masters ? amp::masters::fp32 : amp::masters::none},
                      std::move(executor), at) {}

  [[nodiscard]] const storage_options& storage() const noexcept { return storage_; }
  /// Whether bits beyond a low parameter are kept: false for fp32 parameters, and where small updates are lost or left
  /// to chance.
  [[nodiscard]] bool has_master(std::size_t group, std::size_t i) const noexcept {
    return group < groups_.size() && i < groups_[group]->size() && groups_[group]->has_master(i);
  }

  /// Adds a group; its low parameters get masters, its counter starts at 0.
  void add_group(GroupSpec<Opt> spec, where at = where::here());

  [[nodiscard]] std::size_t group_count() const noexcept { return groups_.size(); }
  /// Options and counter of a group; references stay valid when groups are added.
  [[nodiscard]] group_type& group(std::size_t i, where at = where::here()) { return groups_[checked(i, at)]->hyper; }
  [[nodiscard]] const group_type& group(std::size_t i, where at = where::here()) const {
    return groups_[checked(i, at)]->hyper;
  }
  [[nodiscard]] const std::string& group_name(std::size_t i, where at = where::here()) const {
    return groups_[checked(i, at)]->name;
  }
  /// throws  amp::error if there is no such group or the rate is out of range
  void set_lr(std::size_t i, double lr, where at = where::here()) {
    auto options = group(i, at).options;
    options.lr = lr;
    options.validate(at);
    group(i, at).options = options;
  }

  /// One pass over the gradients, in the formats that they have; gradients in the stash are not looked at.
  [[nodiscard]] GradCheck check(float inv_scale = 1.f);
  /// 2-norm of what `step` would use: the present gradients and, where there is one, the stash.
  [[nodiscard]] double norm(float inv_scale = 1.f);

  /// Steps on gradients * inv_scale * clip, plus the stash * clip. Parameters without a gradient keep their state.
  void step(float inv_scale = 1.f, float clip = 1.f);
  /// Whether gradients were put aside, or written out, that the next step will use.
  [[nodiscard]] bool has_stash() const noexcept {
    return std::any_of(groups_.begin(), groups_.end(), [](const auto& g) { return g->any_stashed(); });
  }
  /// Forgets the stash; parameters, moments and counters stay.
  void skip() noexcept {
    for (auto& g : groups_) g->drop_stash();
    stash_scale_ = 1.;
    materialised_ = false;
  }
  void zero_grad(zeroing how = zeroing::release);

  /// Puts the present gradients aside, unscaled and in fp32, and clears them, so that a backward with another scale can
  /// follow; what is put aside adds up. `low_too` false: gradients of low parameters were used already and are dropped.
  void stash(float inv_scale, bool low_too);
  /// Multiplies what was put aside: a factor of clipping that holds for it and not for what follows.
  void scale_stash(double factor) noexcept {
    if (has_stash()) stash_scale_ /= factor;
  }

  /// Calls `fn(const MasterView&)` for each trained tensor in group order, also one that is frozen now. Writes the fp32
  /// gradients out first, which a step does not need; the next step then uses these.
  template <class F>
  void for_each_master(F&& fn, float inv_scale = 1.f);
  /// Calls `fn(const MomentView&)` for each moment of each tensor that was stepped.
  template <class F>
  void for_each_moment(F&& fn);
  /// The tensors that are really stepped, fp32, in group order: masters in place of low parameters.
  /// throws  amp::error if a low parameter has no fp32 tensor to hand out, and names for_each_master
  [[nodiscard]] std::vector<Param> master_params(where at = where::here()) const;
  /// All masters of a group as one tensor, in parameter order, without gaps.
  /// throws  amp::error unless storage_options asked for flat masters and the group has any
  [[nodiscard]] tensor_view flat_masters(std::size_t group, where at = where::here()) const;
  /// The model's parameters with their present gradients, in group order.
  [[nodiscard]] std::vector<Param> params();

  /// Bytes of masters (or what stands for them) and of moments that a full state takes.
  [[nodiscard]] std::int64_t master_bytes() const noexcept;
  [[nodiscard]] std::int64_t moment_bytes() const noexcept;

  /// Adds what a resumed run needs: what is stepped, moments, counters, rates; keys start with `prefix`.
  void save(StateDict& state, const std::string& prefix = "") const;
  /// Takes it back, bit for bit, and rounds the masters into the low parameters.
  /// A state of another form is converted: masters and moments in any format, with or without scales.
  /// throws  amp::error naming the first entry that is missing or does not fit; nothing is changed then
  void load(const StateDict& state, const std::string& prefix = "", where at = where::here());
  /// Sets one trained tensor to fp32 values: the master exactly, the low parameter rounded. False if there is none of
  /// that name.
  /// throws  amp::error if the sizes differ
  bool assign(std::string_view name, std::span<const float> values, where at = where::here());
  /// throws  amp::error if `load` would
  void expect_loadable(const StateDict& state, const std::string& prefix = "", where at = where::here()) const;

 private:
  using Group = detail::GroupState<Opt>;

  [[nodiscard]] std::size_t checked(std::size_t i, where at) const {
    expects(
        i < groups_.size(),
        [&] { return "group " + std::to_string(i) + " of " + std::to_string(groups_.size()) + " groups"; }, at);
    return i;
  }
  void refresh() {
    for (auto& g : groups_) g->refresh();
  }
  /// Makes the masters of a new group from its low parameters.
  void fill_masters(Group& g);
  /// Before the first use: a master whose low parameter was given another value since it was made is made anew.
  void start() const;
  /// One tensor of what is kept as fp32 values: its weight, or its k-th moment.
  static constexpr int weight = -1;
  /// Calls `fn(lists, lane_of)` with lists of that tensor alone; `lane_of(work)` is their lane.
  template <class F>
  static void with_kept(const Group& g, int k, std::size_t i, F&& fn);
  /// Reads it, and writes it in the form that it is stored in.
  [[nodiscard]] static std::vector<float> values_of(const Group& g, int k, std::size_t i);
  static void put(const Group& g, int k, std::size_t i, std::span<const float> values);
  /// Whether the low weight is not told by the master.
  [[nodiscard]] bool keeps_low(const Group& g, std::size_t i) const noexcept {
    return g.has_master(i) && (storage_.masters == amp::masters::kahan || storage_.stochastic_copies);
  }
  void save_weight(StateDict& state, const std::string& prefix, const Group& g, std::size_t i) const;
  void load_weight(const StateDict& state, const std::string& prefix, Group& g, std::size_t i, where at);
  [[nodiscard]] GradCheck look_at(tensor_list grads, float inv_scale) const;
  /// What a step would read, from the model or from the stash; valid until the next call. `low_too` false: without
  /// those of parameters that have masters.
  [[nodiscard]] tensor_list grads_of(bool from_stash, bool low_too = true);
  /// stash += gradient * inv_scale.
  void add_to_stash(float inv_scale, bool low_too);
  /// Moves all gradients to the stash, where norm and step then find them.
  void materialise(float inv_scale);
  [[nodiscard]] bool wants_norm() const;
  [[nodiscard]] double step_norm(bool from_stash);
  void step_group(Group& g, float factor, bool from_stash, double grad_norm);
  template <class Functor, class Grads, std::size_t... K>
  void run(Group& g, const Functor& functor, const Grads& grads, std::index_sequence<K...> moments);

  storage_options storage_;
  exec::any exec_;
  std::vector<std::unique_ptr<Group>> groups_;  // pointers: references to groups survive an add_group
  detail::StepLists<Opt::states> lists_;        // kept, so that a step allocates nothing
  std::vector<tensor_view> grads_;
  double stash_scale_ = 1.;  // what the stash is multiplied by
  bool materialised_ = false;
};

}  // namespace amp

#include <amp/master_weights/saved.hpp>
#include <amp/master_weights/steps.hpp>
#include <amp/master_weights/values.hpp>
