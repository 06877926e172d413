/// A model's weights as fp32, whatever the level stores: what a checkpoint of the model holds.
#pragma once
#include <amp/core/check.hpp>
#include <amp/fn/copy.hpp>
#include <amp/multi_tensor_apply.hpp>
#include <amp/optim/executor.hpp>
#include <amp/optim/state.hpp>
#include <amp/session.hpp>
#include <amp/tensor/param.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace amp {

/// All parameters of a session's network, names unchanged, low ones widened to fp32.
template <class S>
[[nodiscard]] StateDict model_state(S& session) {
  std::vector<Param> params;
  detail::collect_parameters(session.model(), params);
  StateDict saved;
  for (const Param& p : params) {
    SavedTensor entry{"F32", {p.size}, std::vector<std::byte>(static_cast<std::size_t>(p.size) * sizeof(float))};
    const tensor_view from[] = {p.value_view()};
    const tensor_view to[] = {{entry.bytes.data(), p.size, dtype::fp32, false, p.name}};
    multi_tensor_apply(exec::vectorized{}, fn::Copy{}, lane::out(to), lane::in(from));
    saved[p.name] = std::move(entry);
  }
  return saved;
}

/// Loads fp32 weights into a session of any level: low parameters are rounded, masters keep every bit. Moments,
/// counters and scalers stay.
/// throws  amp::error naming the first parameter that is missing or of another size; nothing is changed then
template <class S>
void load_model_state(S& session, const StateDict& saved, where at = where::here()) {
  std::vector<Param> params;
  detail::collect_parameters(session.model(), params);
  for (const Param& p : params)
    (void)detail::saved_entry(saved, p.name, "F32", static_cast<std::size_t>(p.size) * sizeof(float), at);
  for (const Param& p : params) {
    std::vector<float> values(static_cast<std::size_t>(p.size));
    load_values<float>(saved, p.name, values, at);
    const tensor_view from[] = {as_view(std::as_const(values), p.name)};
    const tensor_view to[] = {p.value_view()};
    multi_tensor_apply(exec::vectorized{}, fn::Copy{}, lane::out(to), lane::in(from));
    session.assign_master(p.name, values, at);
  }
}

}  // namespace amp
