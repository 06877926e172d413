/// What MasterWeights holds, seen and set as fp32 values, whatever form it is stored in.
#pragma once
#include <amp/fn/copy.hpp>
#include <amp/master_weights.hpp>
#include <amp/master_weights/saved_form.hpp>
#include <amp/multi_tensor_apply.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace amp {

namespace detail {
/// Takes the values of a low tensor where it is not the rounding of `masters`; whether there were any.
inline bool follow_low(std::span<float> masters, const tensor_view& low) {
  return visit(low.type, [&]<class T>(std::type_identity<T>) {
    bool changed = false;
    const T* p = static_cast<const T*>(low.data);
    for (float& x : masters) {
      const T now = *p++;
      const T then(x);
      if (std::memcmp(&now, &then, sizeof(T)) == 0) continue;
      x = static_cast<float>(now);
      changed = true;
    }
    return changed;
  });
}
}  // namespace detail

template <Optimizer Opt>
void MasterWeights<Opt>::fill_masters(Group& g) {
  std::vector<tensor_view> masters, low;
  for (std::size_t i = 0; i < g.size(); ++i) {
    if (!g.has_copy(i)) continue;  // remainders and compensations start at 0
    if (storage_.masters == amp::masters::fp32) {
      masters.push_back(g.weight(i)), low.push_back(g.copy(i));
    } else {
      std::vector<float> values(static_cast<std::size_t>(g.params()[i].size));
      const tensor_view from[] = {g.copy(i)};
      detail::read_floats(lane::moments{from}, 0, values);
      put(g, weight, i, values);
    }
  }
  multi_tensor_apply(exec_, fn::Copy{}, lane::out(masters), lane::in(low));
}

template <Optimizer Opt>
void MasterWeights<Opt>::start() const {
  for (const auto& g : groups_) {
    if (!g->starts()) continue;
    for (std::size_t i = 0; i < g->size(); ++i) {
      if (!g->has_copy(i)) continue;
      std::vector<float> values = values_of(*g, weight, i);
      if (detail::follow_low(values, g->copy(i))) put(*g, weight, i, values);
    }
  }
}

template <Optimizer Opt>
template <class F>
void MasterWeights<Opt>::with_kept(const Group& g, int k, std::size_t i, F&& fn) {
  detail::StepLists<Opt::states> lists;
  if (k == weight) {
    g.append_weight(lists, i);
    fn(lists, [&](lane::pass work) { return g.weight_lane(lists, work); });
  } else {
    g.append_moment(lists, k, i);
    fn(lists, [&](lane::pass work) { return g.moment_lane(lists, k, work); });
  }
}

template <Optimizer Opt>
void MasterWeights<Opt>::put(const Group& g, int k, std::size_t i, std::span<const float> values) {
  with_kept(g, k, i, [&](auto& lists, const auto& lane_of) {
    g.store(lists, [&](lane::pass work) {
      auto lane = lane_of(work);
      lane.draws = {};  // a value that is set is rounded to nearest
      detail::write_floats(lane, 0, values);
    });
  });
}

template <Optimizer Opt>
std::vector<float> MasterWeights<Opt>::values_of(const Group& g, int k, std::size_t i) {
  std::vector<float> values(static_cast<std::size_t>(g.params()[i].size));
  with_kept(g, k, i, [&](auto&, const auto& lane_of) { detail::read_floats(lane_of(lane::pass::read), 0, values); });
  return values;
}

template <Optimizer Opt>
bool MasterWeights<Opt>::assign(std::string_view name, std::span<const float> values, where at) {
  for (const auto& g : groups_) {
    for (std::size_t i = 0; i < g->size(); ++i) {
      const Param& p = g->params()[i];
      if (p.name != name || !g->trained(i)) continue;
      const auto size = static_cast<std::int64_t>(values.size());
      expects(
          size == p.size,
          [&] {
            return "parameter " + p.name + " has " + std::to_string(p.size) + " elements, " + std::to_string(size) +
                   " are given";
          },
          at);
      put(*g, weight, i, values);
      return true;
    }
  }
  return false;
}

template <Optimizer Opt>
template <class F>
void MasterWeights<Opt>::for_each_master(F&& fn, float inv_scale) {
  refresh();
  materialise(inv_scale);
  std::vector<float> values, unscaled;
  for (const auto& g : groups_) {
    for (std::size_t i = 0; i < g->size(); ++i) {
      if (!g->trained(i)) continue;
      const auto size = static_cast<std::size_t>(g->params()[i].size);
      const tensor_view w = g->weight(i);
      MasterView view{w.name, {static_cast<const float*>(w.data), size}, {}};
      if (w.type != dtype::fp32) view.value = values = values_of(*g, weight, i);
      if (g->has_grad(i, true)) {
        const tensor_view stash[] = {g->stash(i)};
        view.grad = {static_cast<const float*>(stash[0].data), size};
        if (stash_scale_ != 1. || stash[0].type != dtype::fp32) {
          unscaled.resize(size);
          const tensor_view to[] = {as_view(unscaled)};
          multi_tensor_apply(exec_, fn::Copy{}, lane::out(to), lane::in(stash, static_cast<float>(1. / stash_scale_)));
          view.grad = unscaled;
        }
      }
      fn(std::as_const(view));
    }
  }
}

template <Optimizer Opt>
template <class F>
void MasterWeights<Opt>::for_each_moment(F&& fn) {
  for (const auto& g : groups_) {
    for (std::size_t i = 0; i < g->size(); ++i) {
      if (!g->stepped(i)) continue;
      for (int k = 0; k < Opt::states; ++k) {
        const std::vector<float> values = values_of(*g, k, i);
        const std::string moment = detail::moment_name<Opt>(k);
        fn(MomentView{g->params()[i].name, moment, values});
      }
    }
  }
}

template <Optimizer Opt>
std::vector<Param> MasterWeights<Opt>::master_params(where at) const {
  start();
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
      p.grad = g->stashed(i) && !storage_.low_stash ? g->stash(i).data : nullptr, p.grad_type = dtype::fp32;
      all.push_back(std::move(p));
    }
  }
  return all;
}

template <Optimizer Opt>
tensor_view MasterWeights<Opt>::flat_masters(std::size_t group, where at) const {
  const Group& g = *groups_[checked(group, at)];
  expects(storage_.flat, "flat_masters: ask for them with storage_options{.flat = true}", at);
  expects(
      !g.extra().empty(), [&] { return "group \"" + g.name + "\" has no masters: its parameters are fp32"; }, at);
  start();
  return g.extra().view(g.layout(), 0, g.layout().elements, g.name);
}

template <Optimizer Opt>
std::vector<Param> MasterWeights<Opt>::params() {
  refresh();
  std::vector<Param> all;
  for (const auto& g : groups_) all.insert(all.end(), g->params().begin(), g->params().end());
  return all;
}

namespace detail {
inline std::int64_t stored_bytes(dtype type, std::int64_t size, const StoredLayout& layout) {
  const std::int64_t scales = has_scale(type) ? layout.scale_count(size) * 4 : 0;
  return size * static_cast<std::int64_t>(size_of(type)) + scales;
}
}  // namespace detail

template <Optimizer Opt>
std::int64_t MasterWeights<Opt>::master_bytes() const noexcept {
  std::int64_t sum = 0;
  for (const auto& g : groups_)
    for (std::size_t i = 0; i < g->size(); ++i)
      if (g->has_master(i)) sum += detail::stored_bytes(g->extra().type(), g->params()[i].size, g->layout());
  return sum;
}

template <Optimizer Opt>
std::int64_t MasterWeights<Opt>::moment_bytes() const noexcept {
  std::int64_t sum = 0;
  for (const auto& g : groups_)
    for (std::size_t i = 0; i < g->size(); ++i)
      for (int k = 0; g->trained(i) && k < Opt::states; ++k)
        sum += detail::stored_bytes(storage_.moments[k], g->params()[i].size, g->layout());
  return sum;
}

}  // namespace amp
