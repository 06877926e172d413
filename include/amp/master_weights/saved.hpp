/// Saving and loading MasterWeights.
#pragma once
#include <amp/fn/copy.hpp>
#include <amp/master_weights.hpp>
#include <amp/multi_tensor_apply.hpp>
#include <amp/optim/state.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace amp {

namespace detail {
inline SavedTensor save_view(const tensor_view& v) {
  const auto* bytes = static_cast<const std::byte*>(v.data);
  return {
      std::string(saved_name(v.type)), {v.size}, {bytes, bytes + static_cast<std::size_t>(v.size) * size_of(v.type)}};
}
inline const SavedTensor& saved_view(const StateDict& state, const std::string& key, const tensor_view& v, where at) {
  return saved_entry(state, key, saved_name(v.type), static_cast<std::size_t>(v.size) * size_of(v.type), at);
}
inline void load_view(const StateDict& state, const std::string& key, const tensor_view& v, where at) {
  const auto& entry = saved_view(state, key, v, at);
  if (v.size > 0) std::memcpy(v.data, entry.bytes.data(), entry.bytes.size());
}
/// The key of a parameter's k-th moment, by the optimizer's name for it, or its number.
template <class Opt>
std::string moment_key(const std::string& prefix, int k, const std::string& name) {
  if constexpr (requires { Opt::state_names[0]; }) {
    return prefix + Opt::state_names[k] + '.' + name;
  } else {
    return prefix + "moment" + std::to_string(k) + '.' + name;
  }
}
/// Optimizers that keep numbers per tensor beside the moments.
template <class Opt>
concept HasTensorState = requires {
  Opt::tensor_state_names[0];
};
/// One number per parameter of a group, or none before the first step.
inline std::vector<float> saved_tensor_state(const StateDict& state, const std::string& key, std::size_t parameters,
                                             where at) {
  const auto it = state.find(key);
  const bool empty = it != state.end() && it->second.bytes.empty();
  std::vector<float> values(empty ? 0 : parameters);
  load_values<float>(state, key, values, at);
  return values;
}
}  // namespace detail

template <Optimizer Opt>
void MasterWeights<Opt>::save(StateDict& state, const std::string& prefix) const {
  for (const auto& g : groups_) {
    const std::string group = prefix + "group." + g->name + '.';
    save_value<std::int64_t>(state, group + "step", g->hyper.step);
    if constexpr (requires { g->hyper.options.lr; }) save_value<double>(state, group + "lr", g->hyper.options.lr);
    if constexpr (detail::HasTensorState<Opt>) {
      for (std::size_t k = 0; k < g->hyper.tensor_state.size(); ++k) {
        const std::vector<float>& values = g->hyper.tensor_state[k];
        save_values<float>(state, group + Opt::tensor_state_names[k], values,
                           {static_cast<std::int64_t>(values.size())});
      }
    }
    for (std::size_t i = 0; i < g->size(); ++i) {
      if (!g->trains(i)) continue;
      const std::string& name = g->params()[i].name;
      state[prefix + "master." + name] = detail::save_view(g->weight(i));
      if (!g->stepped(i)) continue;
      for (int k = 0; k < Opt::states; ++k)
        state[detail::moment_key<Opt>(prefix, k, name)] = detail::save_view(g->moment(k, i));
    }
  }
}

template <Optimizer Opt>
void MasterWeights<Opt>::expect_loadable(const StateDict& state, const std::string& prefix, where at) const {
  for (const auto& g : groups_) {
    const std::string group = prefix + "group." + g->name + '.';
    (void)load_value<std::int64_t>(state, group + "step", at);
    if constexpr (requires { g->hyper.options.lr; }) (void)load_value<double>(state, group + "lr", at);
    if constexpr (detail::HasTensorState<Opt>) {
      for (std::size_t k = 0; k < g->hyper.tensor_state.size(); ++k)
        (void)detail::saved_tensor_state(state, group + Opt::tensor_state_names[k], g->size(), at);
    }
    for (std::size_t i = 0; i < g->size(); ++i) {
      if (!g->trains(i)) continue;
      const Param& p = g->params()[i];
      (void)detail::saved_view(state, prefix + "master." + p.name, g->weight(i), at);
      if (Opt::states == 0 || !state.contains(detail::moment_key<Opt>(prefix, 0, p.name))) continue;
      const tensor_view shape{nullptr, p.size, dtype::fp32, false, {}};
      for (int k = 0; k < Opt::states; ++k)
        (void)detail::saved_view(state, detail::moment_key<Opt>(prefix, k, p.name), shape, at);
    }
  }
}

template <Optimizer Opt>
void MasterWeights<Opt>::load(const StateDict& state, const std::string& prefix, where at) {
  expect_loadable(state, prefix, at);
  refresh();
  for (auto& g : groups_) {
    const std::string group = prefix + "group." + g->name + '.';
    g->hyper.step = load_value<std::int64_t>(state, group + "step", at);
    if constexpr (requires { g->hyper.options.lr; }) g->hyper.options.lr = load_value<double>(state, group + "lr", at);
    if constexpr (detail::HasTensorState<Opt>) {
      for (std::size_t k = 0; k < g->hyper.tensor_state.size(); ++k)
        g->hyper.tensor_state[k] = detail::saved_tensor_state(state, group + Opt::tensor_state_names[k], g->size(), at);
    }
    g->reset_moments();
    for (std::size_t i = 0; i < g->size(); ++i) {
      if (!g->trains(i)) continue;
      const std::string& name = g->params()[i].name;
      detail::load_view(state, prefix + "master." + name, g->weight(i), at);
      if (Opt::states == 0 || !state.contains(detail::moment_key<Opt>(prefix, 0, name))) continue;
      g->make_moments();
      g->set_stepped(i, true);
      for (int k = 0; k < Opt::states; ++k)
        detail::load_view(state, detail::moment_key<Opt>(prefix, k, name), g->moment(k, i), at);
    }
    sync(*g, true);
  }
  skip();
}

template <Optimizer Opt>
bool MasterWeights<Opt>::assign(std::string_view name, std::span<const float> values, where at) {
  for (const auto& g : groups_) {
    for (std::size_t i = 0; i < g->size(); ++i) {
      if (g->params()[i].name != name || !g->trains(i)) continue;
      const auto size = static_cast<std::int64_t>(values.size());
      expects(
          size == g->params()[i].size,
          [&] {
            return "parameter " + g->params()[i].name + " has " + std::to_string(g->params()[i].size) + " elements, " +
                   std::to_string(size) + " are given";
          },
          at);
      const tensor_view from[] = {as_view(values.data(), size)};
      const tensor_view to[] = {g->weight(i)};
      multi_tensor_apply(exec_, fn::Copy{}, lane::out(to), lane::in(from));
      const tensor_view low[] = {g->params()[i].value_view()};
      if (g->has_master(i)) multi_tensor_apply(exec_, fn::Copy{}, lane::out(low), lane::in(from));
      return true;
    }
  }
  return false;
}

}  // namespace amp
