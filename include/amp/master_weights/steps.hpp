/// The passes of MasterWeights.
#pragma once
#include <algorithm>
#include <amp/fn/copy.hpp>
#include <amp/fn/l2norm.hpp>
#include <amp/fn/norms.hpp>
#include <amp/master_weights.hpp>
#include <amp/multi_tensor_apply.hpp>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace amp {

namespace detail {
/// throws  amp::error naming two parameters that share memory: each step would move what both hold
inline void expect_apart(std::vector<const Param*> params, where at) {
  const auto begin = [](const Param* p) { return reinterpret_cast<std::uintptr_t>(p->value); };
  std::erase_if(params, [](const Param* p) { return p->size == 0; });
  std::stable_sort(params.begin(), params.end(), [&](const Param* a, const Param* b) { return begin(a) < begin(b); });
  for (std::size_t i = 1; i < params.size(); ++i) {
    const Param &a = *params[i - 1], &b = *params[i];
    expects(
        begin(&a) != begin(&b), [&] { return "parameter " + b.name + " is given twice, so it would be stepped twice"; },
        at);
    expects(
        begin(&a) + static_cast<std::uintptr_t>(a.size) * size_of(a.type) <= begin(&b),
        [&] { return "parameters " + a.name + " and " + b.name + " overlap, so a part would be stepped twice"; }, at);
  }
}

/// Lanes (sum, addend); the sum is first brought to another scale.
struct AddTo {
  float factor = 1.f;

  template <class V>
  AMP_HD AMP_INLINE void operator()(V& sum, const V& addend) const {
    sum = factor * sum + addend;
  }
};
}  // namespace detail

template <Optimizer Opt>
void MasterWeights<Opt>::add_group(GroupSpec<Opt> spec, where at) {
  if (spec.name.empty()) spec.name = std::to_string(groups_.size());
  auto added = std::make_unique<Group>(std::move(spec), storage_, at);
  std::vector<const Param*> all;
  std::unordered_set<std::string> names;
  for (const auto& g : groups_) {
    expects(
        g->name != added->name, [&] { return "there is a group \"" + added->name + "\" already"; }, at);
    for (const Param& p : g->params()) all.push_back(&p), names.insert(p.name);
  }
  for (const Param& p : added->params()) {
    all.push_back(&p);
    expects(
        names.insert(p.name).second,
        [&] { return "two parameters are named \"" + p.name + "\"; names tell saved tensors apart"; }, at);
  }
  detail::expect_apart(std::move(all), at);
  fill_masters(*added);
  groups_.push_back(std::move(added));
}

template <Optimizer Opt>
GradCheck MasterWeights<Opt>::check(float inv_scale) {
  refresh();
  return look_at(grads_of(false), inv_scale);
}

template <Optimizer Opt>
tensor_list MasterWeights<Opt>::grads_of(bool from_stash, bool low_too) {
  grads_.clear();
  for (const auto& g : groups_)
    for (std::size_t i = 0; i < g->size(); ++i)
      if (g->has_grad(i, from_stash) && (low_too || !g->has_master(i)))
        grads_.push_back(from_stash ? g->stash(i) : g->params()[i].grad_view());
  return grads_;
}

template <Optimizer Opt>
GradCheck MasterWeights<Opt>::look_at(tensor_list grads, float inv_scale) const {
  // The factor is applied to the norm: a finite gradient times a factor above 1 must not count as an overflow.
  const norm_result r = fn::l2norm(exec_, grads);
  GradCheck found{r.total * static_cast<double>(inv_scale), !r.finite, {}};
  if (found.overflow) found.first_bad = grads[static_cast<std::size_t>(r.first_nonfinite)].name;
  return found;
}

template <Optimizer Opt>
double MasterWeights<Opt>::norm(float inv_scale) {
  if (!has_stash()) return check(inv_scale).norm;
  materialise(inv_scale);
  return step_norm(true) / stash_scale_;
}

template <Optimizer Opt>
void MasterWeights<Opt>::add_to_stash(float inv_scale, bool low_too) {
  // In its own format the stash stays scaled, by the smaller of the scales that meet in it, so that nothing overflows.
  const double incoming = 1. / static_cast<double>(inv_scale);
  const double common = !storage_.low_stash ? 1. : has_stash() ? std::min(incoming, stash_scale_) : incoming;
  const float factor = storage_.low_stash ? static_cast<float>(common / incoming) : inv_scale;
  const auto rescale = static_cast<float>(common / stash_scale_);
  std::vector<tensor_view> fresh, fresh_grads, sums, sum_grads, idle;
  for (const auto& g : groups_) {
    for (std::size_t i = 0; i < g->size(); ++i) {
      const Param& p = g->params()[i];
      if (!g->has_grad(i, false) || !(low_too || !g->has_master(i))) {
        if (g->stashed(i)) idle.push_back(g->stash(i));
        continue;
      }
      g->make_stash();
      (g->stashed(i) ? sums : fresh).push_back(g->stash(i));
      (g->stashed(i) ? sum_grads : fresh_grads).push_back(p.grad_view());
      g->mark_stashed(i);
    }
  }
  multi_tensor_apply(exec_, fn::Copy{}, lane::out(fresh), lane::in(fresh_grads, factor));
  multi_tensor_apply(exec_, detail::AddTo{rescale}, lane::inout(sums), lane::in(sum_grads, factor));
  if (rescale != 1.f) multi_tensor_apply(exec_, detail::AddTo{rescale}, lane::inout(idle), lane::in(idle, 0.f));
  stash_scale_ = common;
}

template <Optimizer Opt>
void MasterWeights<Opt>::stash(float inv_scale, bool low_too) {
  refresh();
  start();
  // What was zeroed through the model and not through the session is no reason to leave the common path. Not the
  // 2-norm: squares of small gradients are 0.
  if (!materialised_ && (low_too || fn::maxnorm(exec_, grads_of(false, low_too)).total != 0.))
    add_to_stash(inv_scale, low_too);
  materialised_ = false;
  for (const auto& g : groups_)
    for (std::size_t i = 0; i < g->size(); ++i)
      if (g->trains(i)) g->zero_grad(i, zeroing::release);
}

template <Optimizer Opt>
void MasterWeights<Opt>::materialise(float inv_scale) {
  if (materialised_) return;
  refresh();
  start();
  add_to_stash(inv_scale, true);
  materialised_ = true;
}

template <Optimizer Opt>
void MasterWeights<Opt>::step(float inv_scale, float clip) {
  refresh();
  start();
  const bool from_stash = materialised_ || has_stash();
  if (from_stash) materialise(inv_scale);
  const float factor = from_stash ? static_cast<float>(static_cast<double>(clip) / stash_scale_) : inv_scale * clip;
  const double norm = wants_norm() ? step_norm(from_stash) * static_cast<double>(factor) : 0.;
  for (auto& g : groups_) {
    g->optimizer.next_step(g->hyper);
    step_group(*g, factor, from_stash, norm);
    g->drop_stash();
  }
  stash_scale_ = 1.;
  materialised_ = false;
}

/// Whether the coming step needs the norm of all gradients.
template <Optimizer Opt>
bool MasterWeights<Opt>::wants_norm() const {
  if constexpr (requires(const Group& g) { g.optimizer.wants_grad_norm(g.hyper); }) {
    return std::any_of(groups_.begin(), groups_.end(),
                       [](const auto& g) { return g->optimizer.wants_grad_norm(g->hyper); });
  }
  return false;
}

/// 2-norm of what the step reads, before its factor.
template <Optimizer Opt>
double MasterWeights<Opt>::step_norm(bool from_stash) {
  return look_at(grads_of(from_stash), 1.f).norm;
}

template <Optimizer Opt>
void MasterWeights<Opt>::step_group(Group& g, float factor, bool from_stash, double grad_norm) {
  const bool stateless = [&] {
    if constexpr (requires { g.optimizer.stateless(g.hyper); }) return g.optimizer.stateless(g.hyper);
    return false;
  }();
  if (!stateless) g.make_moments();
  lists_.clear();
  g.append(lists_, from_stash, !stateless);
  const auto grads = lane::in(lists_.grads, factor);
  if constexpr (requires { g.optimizer.stateless(g.hyper); }) {
    if (stateless) return run(g, g.optimizer.functor(g.hyper), grads, std::index_sequence<>{});
  }
  const auto moments = std::make_index_sequence<static_cast<std::size_t>(Opt::states)>{};
  if constexpr (TensorOptimizer<Opt>) {
    const auto functor = [&]<std::size_t... K>(std::index_sequence<K...>) {
      const auto weights = g.weight_lane(lists_, lane::pass::read);
      const std::tuple lanes{g.moment_lane(lists_, static_cast<int>(K), lane::pass::read)...};
      const StepLanes<exec::any, decltype(weights), decltype(lanes), decltype(grads)> step{
          exec_, weights, lanes, grads, lists_.first, lists_.parameter, g.size(), grad_norm};
      return g.optimizer.functor(g.hyper, step);
    }
    (moments);
    run(g, functor, grads, moments);
  } else if constexpr (requires { g.optimizer.functor(g.hyper, lists_.first.data()); }) {
    run(g, g.optimizer.functor(g.hyper, lists_.first.data()), grads, moments);
  } else {
    run(g, g.optimizer.functor(g.hyper), grads, moments);
  }
  g.mark_stepped(from_stash);
}

/// One pass over the lists; two where scales have to be known before anything can be stored.
template <Optimizer Opt>
template <class Functor, class Grads, std::size_t... K>
void MasterWeights<Opt>::run(Group& g, const Functor& functor, const Grads& grads, std::index_sequence<K...>) {
  g.store(lists_, [&](lane::pass work) {
    multi_tensor_apply(exec_, functor, g.weight_lane(lists_, work), g.moment_lane(lists_, static_cast<int>(K), work)...,
                       grads);
  });
}

template <Optimizer Opt>
void MasterWeights<Opt>::zero_grad(zeroing how) {
  start();
  for (auto& g : groups_) {
    for (std::size_t i = 0; i < g->size(); ++i) g->zero_grad(i, how);
    g->drop_stash();
  }
  stash_scale_ = 1.;
  materialised_ = false;
}

}  // namespace amp
