/// The passes of MasterWeights.
#pragma once
#include <algorithm>
#include <amp/fn/copy.hpp>
#include <amp/fn/l2norm.hpp>
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
/// Lanes (sum, addend).
struct AddTo {
  template <class V>
  AMP_HD AMP_INLINE void operator()(V& sum, const V& addend) const {
    sum = sum + addend;
  }
};
}  // namespace detail

template <Optimizer Opt>
void MasterWeights<Opt>::add_group(GroupSpec<Opt> spec, where at) {
  if (spec.name.empty()) spec.name = std::to_string(groups_.size());
  auto added = std::make_unique<Group>(std::move(spec), masters_, at);
  std::unordered_set<const void*> values;
  std::unordered_set<std::string> names;
  for (const auto& g : groups_) {
    expects(
        g->name != added->name, [&] { return "there is a group \"" + added->name + "\" already"; }, at);
    for (const Param& p : g->params()) values.insert(p.value), names.insert(p.name);
  }
  for (const Param& p : added->params()) {
    expects(
        p.size == 0 || values.insert(p.value).second,
        [&] { return "parameter " + p.name + " is given twice, so it would be stepped twice"; }, at);
    expects(
        names.insert(p.name).second,
        [&] { return "two parameters are named \"" + p.name + "\"; names tell saved tensors apart"; }, at);
  }
  sync(*added, false);
  groups_.push_back(std::move(added));
}

/// Copies all masters of a group: from the low parameters, or rounded into them.
template <Optimizer Opt>
void MasterWeights<Opt>::sync(Group& g, bool to_low) {
  std::vector<tensor_view> masters, low;
  for (std::size_t i = 0; i < g.size(); ++i) {
    if (!g.has_master(i)) continue;
    masters.push_back(g.weight(i));
    low.push_back(g.copy(i));
  }
  multi_tensor_apply(exec_, fn::Copy{}, lane::out(to_low ? low : masters), lane::in(to_low ? masters : low));
}

template <Optimizer Opt>
GradCheck MasterWeights<Opt>::check(float inv_scale) {
  refresh();
  return look_at_grads(inv_scale, [](const Group&, std::size_t) { return true; });
}

template <Optimizer Opt>
template <class Wanted>
GradCheck MasterWeights<Opt>::look_at_grads(float inv_scale, Wanted&& wanted) {
  grads_.clear();
  for (const auto& g : groups_)
    for (std::size_t i = 0; i < g->size(); ++i)
      if (g->trains(i) && g->params()[i].has_grad() && wanted(*g, i)) grads_.push_back(g->params()[i].grad_view());
  return look_at(grads_, inv_scale);
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
  return step_norm(true);
}

template <Optimizer Opt>
template <class Wanted>
void MasterWeights<Opt>::add_to_stash(float inv_scale, Wanted&& wanted) {
  std::vector<tensor_view> fresh, fresh_grads, sums, sum_grads;
  for (const auto& g : groups_) {
    for (std::size_t i = 0; i < g->size(); ++i) {
      const Param& p = g->params()[i];
      if (!g->trains(i) || !p.has_grad() || !wanted(*g, i)) continue;
      g->make_stash();
      (g->stashed(i) ? sums : fresh).push_back(g->stash(i));
      (g->stashed(i) ? sum_grads : fresh_grads).push_back(p.grad_view());
      g->mark_stashed(i);
    }
  }
  multi_tensor_apply(exec_, fn::Copy{}, lane::out(fresh), lane::in(fresh_grads, inv_scale));
  multi_tensor_apply(exec_, detail::AddTo{}, lane::inout(sums), lane::in(sum_grads, inv_scale));
}

template <Optimizer Opt>
void MasterWeights<Opt>::stash(float inv_scale, bool low_too) {
  refresh();
  const auto kept = [&](const Group& g, std::size_t i) { return low_too || !g.has_master(i); };
  // What was zeroed through the model and not through the session is no reason to leave the common path.
  if (!materialised_ && (low_too || look_at_grads(1.f, kept).norm != 0.)) add_to_stash(inv_scale, kept);
  materialised_ = false;
  for (const auto& g : groups_)
    for (std::size_t i = 0; i < g->size(); ++i)
      if (g->trains(i)) g->zero_grad(i, zeroing::release);
}

template <Optimizer Opt>
void MasterWeights<Opt>::materialise(float inv_scale) {
  if (materialised_) return;
  refresh();
  add_to_stash(inv_scale, [](const Group&, std::size_t) { return true; });
  materialised_ = true;
}

template <Optimizer Opt>
void MasterWeights<Opt>::step(float inv_scale, float clip) {
  refresh();
  const bool from_stash = materialised_ || has_stash();
  if (from_stash) materialise(inv_scale);
  const float factor = from_stash ? clip : inv_scale * clip;
  const double norm = wants_norm() ? step_norm(from_stash) * static_cast<double>(factor) : 0.;
  for (auto& g : groups_) {
    g->optimizer.next_step(g->hyper);
    step_group(*g, factor, from_stash, norm);
    g->drop_stash();
  }
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
  if (!from_stash) return look_at_grads(1.f, [](const Group&, std::size_t) { return true; }).norm;
  grads_.clear();
  for (const auto& g : groups_)
    for (std::size_t i = 0; i < g->size(); ++i)
      if (g->stashed(i)) grads_.push_back(g->stash(i));
  return look_at(grads_, 1.f).norm;
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
  const auto weights = lane::inout_with_copy(lists_.weights, lists_.copies);
  const auto grads = lane::in(lists_.grads, factor);
  if constexpr (requires { g.optimizer.stateless(g.hyper); }) {
    if (stateless) return multi_tensor_apply(exec_, g.optimizer.functor(g.hyper), weights, grads);
  }
  [&]<std::size_t... K>(std::index_sequence<K...>) {
    const std::tuple moments{lane::inout(lists_.moments[K])...};
    const StepLanes<exec::any, decltype(weights), decltype(moments), decltype(grads)> step{
        exec_, weights, moments, grads, lists_.first, lists_.parameter, g.size(), grad_norm};
    const auto functor = [&] {
      if constexpr (TensorOptimizer<Opt>) {
        return g.optimizer.functor(g.hyper, step);
      } else if constexpr (requires { g.optimizer.functor(g.hyper, lists_.first.data()); }) {
        return g.optimizer.functor(g.hyper, lists_.first.data());
      } else {
        return g.optimizer.functor(g.hyper);
      }
    }();
    multi_tensor_apply(exec_, functor, weights, std::get<K>(moments)..., grads);
  }
  (std::make_index_sequence<static_cast<std::size_t>(Opt::states)>{});
  g.mark_stepped(from_stash);
}

template <Optimizer Opt>
void MasterWeights<Opt>::zero_grad(zeroing how) {
  for (auto& g : groups_) {
    for (std::size_t i = 0; i < g->size(); ++i) g->zero_grad(i, how);
    g->drop_stash();
  }
  materialised_ = false;
}

template <Optimizer Opt>
template <class F>
void MasterWeights<Opt>::for_each_master(F&& fn, float inv_scale) {
  refresh();
  materialise(inv_scale);
  std::vector<float> widened;
  for (const auto& g : groups_) {
    for (std::size_t i = 0; i < g->size(); ++i) {
      if (!g->trains(i)) continue;
      const tensor_view w = g->weight(i);
      const auto size = static_cast<std::size_t>(w.size);
      std::span<const float> value(static_cast<const float*>(w.data), w.type == dtype::fp32 ? size : 0);
      if (w.type != dtype::fp32) {  // no master: show what the step will widen
        widened.resize(size);
        const tensor_view out[] = {{widened.data(), w.size, dtype::fp32, false, w.name}};
        const tensor_view in[] = {w};
        multi_tensor_apply(exec_, fn::Copy{}, lane::out(out), lane::in(in));
        value = widened;
      }
      const auto* grad = static_cast<const float*>(g->stashed(i) ? g->stash(i).data : nullptr);
      fn(MasterView{w.name, value, {grad, grad == nullptr ? 0 : size}});
    }
  }
}

template <Optimizer Opt>
std::vector<Param> MasterWeights<Opt>::master_params(where at) const {
  std::vector<Param> all;
  for (const auto& g : groups_) {
    for (std::size_t i = 0; i < g->size(); ++i) {
      if (!g->trains(i)) continue;
      const tensor_view w = g->weight(i);
      expects(
          w.type == dtype::fp32,
          [&] { return "parameter " + g->params()[i].name + " has no fp32 master; use for_each_master(fn)"; }, at);
      Param p = g->params()[i];
      p.value = w.data, p.type = dtype::fp32;
      p.grad = g->stashed(i) ? g->stash(i).data : nullptr, p.grad_type = dtype::fp32;
      all.push_back(std::move(p));
    }
  }
  return all;
}

template <Optimizer Opt>
std::vector<Param> MasterWeights<Opt>::params() {
  refresh();
  std::vector<Param> all;
  for (const auto& g : groups_) all.insert(all.end(), g->params().begin(), g->params().end());
  return all;
}

}  // namespace amp
