/// Saving and loading MasterWeights: in the forms that are stored, bit for bit; from any form by its values.
#pragma once
#include <amp/master_weights.hpp>
#include <amp/master_weights/saved_form.hpp>
#include <amp/optim/state.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace amp {

template <Optimizer Opt>
void MasterWeights<Opt>::save(StateDict& state, const std::string& prefix) const {
  start();
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
      if (!g->trained(i)) continue;
      save_weight(state, prefix, *g, i);
      if (!g->stepped(i)) continue;
      for (int k = 0; k < Opt::states; ++k) {
        const detail::SavedKeys keys(prefix, detail::moment_name<Opt>(k), g->params()[i].name);
        detail::save_stored(state, keys, g->moment(k, i), g->moments(k), g->layout(), i);
      }
    }
  }
}

/// The value under "master." is what the next step starts from: fp32 unless it is a low weight or a scaled master. What
/// it does not tell is saved beside it: a compensated weight whose rounding was a tie, a copy rounded at random.
template <Optimizer Opt>
void MasterWeights<Opt>::save_weight(StateDict& state, const std::string& prefix, const Group& g, std::size_t i) const {
  const detail::SavedKeys keys(prefix, "master", g.params()[i].name);
  if (g.rest(i).data == nullptr) {
    detail::save_stored(state, keys, g.weight(i), g.extra(), g.layout(), i);
  } else {
    save_values<float>(state, keys.values, values_of(g, weight, i), {g.params()[i].size});
  }
  if (keeps_low(g, i)) state[prefix + "weight." + g.params()[i].name] = detail::save_view(g.params()[i].value_view());
}

template <Optimizer Opt>
void MasterWeights<Opt>::expect_loadable(const StateDict& state, const std::string& prefix, where at) const {
  for (const auto& g : groups_) {
    const std::string group = prefix + "group." + g->name + '.';
    const auto step = load_value<std::int64_t>(state, group + "step", at);
    expects(
        step >= 0, [&] { return "saved \"" + group + "step\" is negative: " + std::to_string(step); }, at);
    if constexpr (requires { g->hyper.options.lr; }) {
      auto options = g->hyper.options;
      options.lr = load_value<double>(state, group + "lr", at);
      if constexpr (requires { options.validate(at); }) options.validate(at);
    }
    if constexpr (detail::HasTensorState<Opt>) {
      for (std::size_t k = 0; k < g->hyper.tensor_state.size(); ++k)
        (void)detail::saved_tensor_state(state, group + Opt::tensor_state_names[k], g->size(), at);
    }
    for (std::size_t i = 0; i < g->size(); ++i) {
      if (!g->trained(i)) continue;
      const Param& p = g->params()[i];
      (void)detail::SavedValues(state, {prefix, "master", p.name}, p.size, at);
      if (Opt::states == 0 || !state.contains(detail::moment_key<Opt>(prefix, 0, p.name))) continue;
      for (int k = 0; k < Opt::states; ++k)
        (void)detail::SavedValues(state, {prefix, detail::moment_name<Opt>(k), p.name}, p.size, at);
    }
  }
}

template <Optimizer Opt>
void MasterWeights<Opt>::load(const StateDict& state, const std::string& prefix, where at) {
  expect_loadable(state, prefix, at);
  refresh();
  for (auto& g : groups_) {
    (void)g->starts();  // what is loaded is what there is
    const std::string group = prefix + "group." + g->name + '.';
    g->hyper.step = load_value<std::int64_t>(state, group + "step", at);
    if constexpr (requires { g->hyper.options.lr; }) g->hyper.options.lr = load_value<double>(state, group + "lr", at);
    if constexpr (detail::HasTensorState<Opt>) {
      for (std::size_t k = 0; k < g->hyper.tensor_state.size(); ++k)
        g->hyper.tensor_state[k] = detail::saved_tensor_state(state, group + Opt::tensor_state_names[k], g->size(), at);
    }
    g->reset_moments();
    for (std::size_t i = 0; i < g->size(); ++i) {
      if (!g->trained(i)) continue;
      const std::string& name = g->params()[i].name;
      load_weight(state, prefix, *g, i, at);
      if (Opt::states == 0 || !state.contains(detail::moment_key<Opt>(prefix, 0, name))) continue;
      g->make_moments();
      g->set_stepped(i, true);
      for (int k = 0; k < Opt::states; ++k) {
        detail::SavedValues saved(state, {prefix, detail::moment_name<Opt>(k), name}, g->params()[i].size, at);
        if (saved.fits(g->moments(k), g->layout())) {
          saved.take(g->moment(k, i), g->moments(k).scale(g->layout(), i));
        } else {
          put(*g, k, i, saved.floats());
        }
      }
    }
  }
  skip();
}

template <Optimizer Opt>
void MasterWeights<Opt>::load_weight(const StateDict& state, const std::string& prefix, Group& g, std::size_t i,
                                     where at) {
  const Param& p = g.params()[i];
  detail::SavedValues saved(state, {prefix, "master", p.name}, p.size, at);
  if (storage_.masters == amp::masters::fp16 && g.has_copy(i) && saved.fits(g.extra(), g.layout())) {
    saved.take(g.weight(i), g.extra().scale(g.layout(), i));
    detail::write_low(values_of(g, weight, i), g.copy(i));
    return;
  }
  put(g, weight, i, saved.floats());
  const auto low = state.find(prefix + "weight." + p.name);
  if (!keeps_low(g, i) || low == state.end()) return;
  const std::vector<std::byte>& bytes = low->second.bytes;
  const std::size_t size = static_cast<std::size_t>(p.size) * size_of(p.type);
  if (low->second.type != saved_name(p.type) || bytes.size() != size || size == 0) return;  // of another format
  std::memcpy(p.value, bytes.data(), size);
  if (g.rest(i).data != nullptr) detail::settle_ties(saved.floats(), g.weight(i), g.rest(i));
}

}  // namespace amp
