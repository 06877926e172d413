/// One parameter group as it is stored: masters, moments and gradients put aside, beside the parameters themselves.
#pragma once
#include <amp/core/check.hpp>
#include <amp/half_traits.hpp>
#include <amp/optim/buffer.hpp>
#include <amp/optim/concepts.hpp>
#include <amp/optim/param_source.hpp>
#include <amp/tensor/param.hpp>
#include <amp/tensor/view.hpp>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace amp {

/// What an optimizer is given: options and the parameters that they hold for.
template <Optimizer Opt>
struct GroupSpec {
  Opt options;
  std::shared_ptr<ParamSource> source;
  std::string name = {};
};

namespace detail {

/// The lists of one pass over a group: what is stepped, its low copies, its moments, its gradients.
template <int States>
struct StepLists {
  std::vector<tensor_view> weights, copies, grads;
  std::array<std::vector<tensor_view>, static_cast<std::size_t>(States)> moments;
  std::vector<std::uint8_t> first;     ///< 1: this tensor has no state yet
  std::vector<std::size_t> parameter;  ///< index in the group

  void clear() {
    weights.clear(), copies.clear(), grads.clear(), first.clear(), parameter.clear();
    for (auto& list : moments) list.clear();
  }
};

template <Optimizer Opt>
class GroupState {
 public:
  static constexpr int states = Opt::states;

  /// throws  amp::error if an option is out of range or there is no source
  GroupState(GroupSpec<Opt> spec, bool masters, where at)
      : optimizer(spec.options), hyper(spec.options, at), name(std::move(spec.name)), source_(std::move(spec.source)) {
    expects(source_ != nullptr, "a parameter group needs a source of parameters; an empty FixedParams is legal", at);
    params_ = source_->refresh();
    std::int64_t total = 0;
    bool any_low = false;
    for (const Param& p : params_) {
      expects(
          p.size >= 0 && (p.value != nullptr || p.size == 0), [&] { return "parameter " + p.name + " has no value"; },
          at);
      offsets_.push_back(total);
      total += (p.size + 15) / 16 * 16;  // every tensor starts on a cache line
      any_low |= p.requires_grad && p.type != dtype::fp32;
    }
    total_ = total;
    if (masters && any_low) master_ = FloatBuffer(total_, 0);
    stepped_.assign(params_.size(), false);
    stashed_.assign(params_.size(), false);
  }

  /// Asks for the present gradients.
  void refresh(where at = where::here()) {
    params_ = source_->refresh();
    expects(
        params_.size() == offsets_.size(),
        [&] {
          return "the number of parameters of group \"" + name + "\" changed from " + std::to_string(offsets_.size()) +
                 " to " + std::to_string(params_.size()) + "; add a group instead";
        },
        at);
  }

  [[nodiscard]] std::span<const Param> params() const noexcept { return params_; }
  [[nodiscard]] std::size_t size() const noexcept { return offsets_.size(); }
  [[nodiscard]] bool trains(std::size_t i) const noexcept { return params_[i].requires_grad; }
  [[nodiscard]] bool has_master(std::size_t i) const noexcept {
    return !master_.empty() && params_[i].requires_grad && params_[i].type != dtype::fp32;
  }
  [[nodiscard]] bool stepped(std::size_t i) const noexcept { return stepped_[i]; }
  [[nodiscard]] bool stashed(std::size_t i) const noexcept { return stashed_[i]; }
  [[nodiscard]] bool any_stashed() const noexcept {
    for (const bool s : stashed_)
      if (s) return true;
    return false;
  }

  /// What the optimizer really steps: the master, or the parameter where it has none.
  [[nodiscard]] tensor_view weight(std::size_t i) const noexcept {
    return has_master(i) ? part(master_, i) : params_[i].value_view();
  }
  /// The low copy of a master; null data where there is none.
  [[nodiscard]] tensor_view copy(std::size_t i) const noexcept {
    if (has_master(i)) return params_[i].value_view();
    return {nullptr, params_[i].size, dtype::fp32, false, params_[i].name};
  }
  [[nodiscard]] tensor_view moment(int k, std::size_t i) const noexcept {
    return part(moments_[static_cast<std::size_t>(k)], i);
  }
  [[nodiscard]] tensor_view stash(std::size_t i) const noexcept { return part(stash_, i); }

  void make_moments() {
    for (int k = 0; k < states; ++k) {
      auto& moment = moments_[static_cast<std::size_t>(k)];
      if (moment.empty()) moment = FloatBuffer(total_, 3 + 5 * k);
    }
  }
  /// As before the first step.
  void reset_moments() {
    moments_ = {};
    stepped_.assign(stepped_.size(), false);
  }
  void make_stash() {
    if (stash_.empty()) stash_ = FloatBuffer(total_, 1);
  }
  void mark_stashed(std::size_t i) { stashed_[i] = true; }
  void drop_stash() {
    if (stash_.empty()) return;
    stash_ = {};
    stashed_.assign(stashed_.size(), false);
  }
  void zero_grad(std::size_t i, zeroing how) { source_->zero_grad(i, how); }

  /// Appends the tensors that have a gradient, in the stash or in the model.
  void append(StepLists<states>& lists, bool from_stash, bool with_moments) const {
    for (std::size_t i = 0; i < size(); ++i) {
      if (!has_grad(i, from_stash)) continue;
      lists.weights.push_back(weight(i));
      lists.copies.push_back(copy(i));
      lists.grads.push_back(from_stash ? stash(i) : params_[i].grad_view());
      lists.first.push_back(stepped_[i] ? 0 : 1);
      lists.parameter.push_back(i);
      for (int k = 0; with_moments && k < states; ++k)
        lists.moments[static_cast<std::size_t>(k)].push_back(moment(k, i));
    }
  }
  /// From now on the tensors that `append` gave have a state.
  void mark_stepped(bool from_stash) {
    for (std::size_t i = 0; i < size(); ++i)
      if (has_grad(i, from_stash)) stepped_[i] = true;
  }
  void set_stepped(std::size_t i, bool on) { stepped_[i] = on; }

  Opt optimizer;
  typename Opt::group hyper;
  std::string name;

 private:
  [[nodiscard]] bool has_grad(std::size_t i, bool from_stash) const noexcept {
    return trains(i) && (from_stash ? stashed(i) : params_[i].has_grad());
  }
  [[nodiscard]] tensor_view part(const FloatBuffer& buffer, std::size_t i) const noexcept {
    return {buffer.data() + offsets_[i], params_[i].size, dtype::fp32, false, params_[i].name};
  }

  std::shared_ptr<ParamSource> source_;
  std::span<const Param> params_;
  std::vector<std::int64_t> offsets_;
  std::int64_t total_ = 0;
  FloatBuffer master_, stash_;
  std::array<FloatBuffer, static_cast<std::size_t>(states)> moments_;
  std::vector<bool> stepped_, stashed_;
};

}  // namespace detail
}  // namespace amp
