/// One parameter group as it is stored: masters, moments and gradients put aside, beside the parameters themselves.
#pragma once
#include <algorithm>
#include <amp/core/check.hpp>
#include <amp/half_traits.hpp>
#include <amp/optim/buffer.hpp>
#include <amp/optim/concepts.hpp>
#include <amp/optim/param_source.hpp>
#include <amp/optim/storage.hpp>
#include <amp/optim/stored.hpp>
#include <amp/tensor/param.hpp>
#include <amp/tensor/view.hpp>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
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

/// A number for a name, the same in every run: streams of random bits are told apart by it.
[[nodiscard]] constexpr std::uint32_t name_hash(std::string_view name) noexcept {
  std::uint32_t hash = 2166136261u;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}
/// throws  amp::error naming a parameter that cannot be trained
inline void expect_trainable(const Param& p, const storage_options& storage, where at) {
  expects(
      p.size >= 0 && (p.value != nullptr || p.size == 0), [&] { return "parameter " + p.name + " has no value"; }, at);
  if (!p.requires_grad) return;
  expects(
      known(p.type) && size_of(p.type) > 1,
      [&] {
        return "parameter " + p.name + " is " + std::string(amp::name(p.type)) +
               "; trained parameters are fp32, fp16 or bf16";
      },
      at);
  expects(
      storage.masters != masters::remainder || p.type != dtype::fp16,
      [&] {
        return "parameter " + p.name +
               " is fp16; a 16-bit remainder completes bf16 only, use masters::fp32 or masters::kahan";
      },
      at);
}

template <Optimizer Opt>
class GroupState {
 public:
  static constexpr int states = Opt::states;

  /// throws  amp::error if an option is out of range, there is no source, or a parameter cannot be trained
  GroupState(GroupSpec<Opt> spec, const storage_options& storage, where at)
      : optimizer(spec.options),
        hyper(spec.options, at),
        name(std::move(spec.name)),
        storage_(storage),
        source_(std::move(spec.source)) {
    expects(source_ != nullptr, "a parameter group needs a source of parameters; an empty FixedParams is legal", at);
    params_ = source_->refresh();
    layout_.gaps = !storage.flat;
    layout_.per = storage.scales;
    bool any_low = false;
    for (const Param& p : params_) {
      expect_trainable(p, storage, at);
      layout_.add(p.requires_grad ? p.size : 0);
      trained_.push_back(p.requires_grad);
      hashes_.push_back(name_hash(p.name));
      any_low |= p.requires_grad && p.type != dtype::fp32;
    }
    for (const Param& p : params_) {
      expects(
          !storage.flat || p.type == params_[0].type,
          [&] {
            return "group \"" + name + "\" mixes " + std::string(amp::name(params_[0].type)) + " and " +
                   std::string(amp::name(p.type)) + " (" + p.name + "); flat masters need parameters of one type";
          },
          at);
    }
    if (any_low) extra_ = make_extra();
    stepped_.assign(params_.size(), false);
    stashed_.assign(params_.size(), false);
  }

  /// Asks for the present gradients.
  void refresh(where at = where::here()) {
    params_ = source_->refresh();
    expects(
        params_.size() == size(),
        [&] {
          return "the number of parameters of group \"" + name + "\" changed from " + std::to_string(size()) + " to " +
                 std::to_string(params_.size()) + "; add a group instead";
        },
        at);
    for (std::size_t i = 0; i < size(); ++i) {
      expects(
          trained_[i] || !params_[i].requires_grad,
          [&] {
            return "parameter " + params_[i].name +
                   " did not require a gradient when its group was made and has no state; add it in a group of its own";
          },
          at);
    }
  }

  [[nodiscard]] std::span<const Param> params() const noexcept { return params_; }
  [[nodiscard]] std::size_t size() const noexcept { return layout_.element.size(); }
  /// Whether a parameter has state: one that is frozen now, and trained before, keeps it.
  [[nodiscard]] bool trained(std::size_t i) const noexcept { return trained_[i]; }
  /// Whether steps move it now.
  [[nodiscard]] bool trains(std::size_t i) const noexcept { return trained_[i] && params_[i].requires_grad; }
  /// Whether bits beyond the low parameter are kept; gradients are then used once and not summed by the model.
  [[nodiscard]] bool has_master(std::size_t i) const noexcept {
    return !extra_.empty() && trained_[i] && params_[i].type != dtype::fp32;
  }
  /// The same in a tensor of its own.
  [[nodiscard]] bool has_copy(std::size_t i) const noexcept {
    return has_master(i) && (storage_.masters == masters::fp32 || storage_.masters == masters::fp16);
  }
  /// Whether a step would use a gradient of it, from the stash or from the model.
  [[nodiscard]] bool has_grad(std::size_t i, bool from_stash) const noexcept {
    return trains(i) && (from_stash ? stashed(i) : params_[i].has_grad());
  }
  [[nodiscard]] bool stepped(std::size_t i) const noexcept { return stepped_[i]; }
  [[nodiscard]] bool stashed(std::size_t i) const noexcept { return stashed_[i]; }
  [[nodiscard]] bool any_stashed() const noexcept {
    return std::any_of(stashed_.begin(), stashed_.end(), [](bool s) { return s; });
  }

  /// What the optimizer really steps: the master, or the parameter where it has none in a tensor of its own.
  [[nodiscard]] tensor_view weight(std::size_t i) const noexcept {
    return has_copy(i) ? part(extra_, i) : params_[i].value_view();
  }
  /// The low copy of a master; null data where there is none.
  [[nodiscard]] tensor_view copy(std::size_t i) const noexcept {
    return has_copy(i) ? params_[i].value_view() : none(i);
  }
  /// What completes a low weight; null data where there is none.
  [[nodiscard]] tensor_view rest(std::size_t i) const noexcept {
    return has_master(i) && !has_copy(i) ? part(extra_, i) : none(i);
  }
  [[nodiscard]] tensor_view moment(int k, std::size_t i) const noexcept { return part(moments(k), i); }
  [[nodiscard]] const StoredArray& moments(int k) const noexcept { return moments_[static_cast<std::size_t>(k)]; }
  [[nodiscard]] const StoredArray& extra() const noexcept { return extra_; }
  [[nodiscard]] const StoredLayout& layout() const noexcept { return layout_; }
  [[nodiscard]] tensor_view stash(std::size_t i) const noexcept {
    const tensor_view wide = part(stash_, i);
    return storage_.low_stash ? tensor_view{wide.data, wide.size, params_[i].type, false, wide.name} : wide;
  }

  void make_moments() {
    for (int k = 0; k < states; ++k) {
      auto& moment = moments_[static_cast<std::size_t>(k)];
      const dtype type = storage_.moments[k];
      if (moment.empty()) moment = StoredArray(type, layout_, 3 + 5 * k, holds_squares<Opt>(k) && size_of(type) == 1);
    }
  }
  /// As before the first step.
  void reset_moments() {
    moments_ = {};
    stepped_.assign(stepped_.size(), false);
  }
  void make_stash() {
    if (!stash_.empty()) return;
    const bool narrow = storage_.low_stash && std::none_of(params_.begin(), params_.end(),
                                                           [](const Param& p) { return p.type == dtype::fp32; });
    stash_ = StoredArray(narrow ? dtype::bf16 : dtype::fp32, layout_, 1);
  }
  void mark_stashed(std::size_t i) { stashed_[i] = true; }
  void drop_stash() {
    if (stash_.empty()) return;
    stash_ = {};
    stashed_.assign(stashed_.size(), false);
  }
  void zero_grad(std::size_t i, zeroing how) { source_->zero_grad(i, how); }

  /// Appends one tensor's weight and what belongs to it.
  void append_weight(StepLists<states>& lists, std::size_t i) const {
    lists.weights.add(weight(i), extra_.scale(layout_, i));
    lists.copies.push_back(copy(i));
    lists.rest.push_back(rest(i));
    lists.stream.push_back(hashes_[i] | static_cast<std::uint64_t>(hyper.step) << 32);
  }
  void append_moment(StepLists<states>& lists, int k, std::size_t i) const {
    lists.moments[static_cast<std::size_t>(k)].add(moment(k, i), moments(k).scale(layout_, i));
  }
  /// Appends the tensors that have a gradient, in the stash or in the model.
  void append(StepLists<states>& lists, bool from_stash, bool with_moments) const {
    for (std::size_t i = 0; i < size(); ++i) {
      if (!has_grad(i, from_stash)) continue;
      append_weight(lists, i);
      lists.grads.push_back(from_stash ? stash(i) : params_[i].grad_view());
      lists.first.push_back(stepped_[i] ? 0 : 1);
      lists.parameter.push_back(i);
      for (int k = 0; with_moments && k < states; ++k) append_moment(lists, k, i);
    }
  }
  /// From now on the tensors that `append` gave have a state.
  void mark_stepped(bool from_stash) {
    for (std::size_t i = 0; i < size(); ++i)
      if (has_grad(i, from_stash)) stepped_[i] = true;
  }
  void set_stepped(std::size_t i, bool on) { stepped_[i] = on; }
  /// True once, before the first use: until then masters follow changes of the low parameters.
  [[nodiscard]] bool starts() noexcept { return !std::exchange(started_, true); }

  /// The lanes of a pass over lists that this group appended to.
  [[nodiscard]] lane::weights weight_lane(StepLists<states>& lists, lane::pass work) const {
    static constexpr completion forms[] = {completion::none,   completion::remainder, completion::compensation,
                                           completion::random, completion::scale,     completion::none};
    const completion form = forms[static_cast<std::size_t>(storage_.masters)];
    lane::draw_list draws{};
    if (form == completion::random || storage_.stochastic_copies) draws = {storage_.seed, lists.stream};
    return {lists.weights.views,
            lists.copies,
            lists.rest,
            form,
            lists.weights.scales(layout_.block(), false, work),
            draws,
            work};
  }
  [[nodiscard]] lane::moments moment_lane(StepLists<states>& lists, int k, lane::pass work) const {
    StoredList& list = lists.moments[static_cast<std::size_t>(k)];
    lane::draw_list draws{};
    if (storage_.stochastic_moments)
      draws = {storage_.seed + 0x9e3779b97f4a7c15u * static_cast<unsigned>(k + 1), lists.stream};
    return {list.views, list.scales(layout_.block(), moments(k).root(), work), draws, work};
  }
  /// Calls `pass(work)` to store what the lists hold; before that to measure, where scales have to be known first.
  template <class Pass>
  void store(StepLists<states>& lists, Pass&& pass) const {
    const auto needs = [&](const StoredList& list) { return list.needs_measuring(layout_.block()); };
    if (needs(lists.weights) || std::any_of(lists.moments.begin(), lists.moments.end(), needs)) {
      pass(lane::pass::measure);
      lists.weights.find_next(false);
      for (int k = 0; k < states; ++k) lists.moments[static_cast<std::size_t>(k)].find_next(moments(k).root());
    }
    pass(lane::pass::store);
    lists.weights.take_next();
    for (auto& list : lists.moments) list.take_next();
  }

  Opt optimizer;
  typename Opt::group hyper;
  std::string name;

 private:
  [[nodiscard]] tensor_view none(std::size_t i) const noexcept {
    return {nullptr, params_[i].size, dtype::fp32, false, params_[i].name};
  }
  [[nodiscard]] tensor_view part(const StoredArray& array, std::size_t i) const noexcept {
    return array.view(layout_, i, params_[i].size, params_[i].name);
  }
  [[nodiscard]] StoredArray make_extra() const {
    switch (storage_.masters) {
      case masters::fp32:
        return StoredArray(dtype::fp32, layout_, 0);
      case masters::fp16:
        return StoredArray(dtype::fp16, layout_, 0);
      case masters::remainder:
      case masters::kahan:
        return StoredArray(dtype::bf16, layout_, 0);
      case masters::stochastic:
      case masters::none:
        break;
    }
    return {};
  }

  storage_options storage_;
  std::shared_ptr<ParamSource> source_;
  std::span<const Param> params_;
  StoredLayout layout_;
  StoredArray extra_, stash_;  // extra: masters, remainders or compensations
  std::array<StoredArray, static_cast<std::size_t>(states)> moments_;
  bool started_ = false;
  std::vector<bool> trained_, stepped_, stashed_;
  std::vector<std::uint32_t> hashes_;
};

}  // namespace detail
}  // namespace amp
