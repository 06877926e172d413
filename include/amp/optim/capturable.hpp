/// Adam steps whose rate, counter, flag and scale lie in memory, so that a host need not know them: what a captured
/// graph replays. On the CPU that memory is the host's.
#pragma once
#include <amp/core/check.hpp>
#include <amp/fn/capturable_adam.hpp>
#include <amp/multi_tensor_apply.hpp>
#include <amp/optim/adam.hpp>
#include <amp/tensor/list.hpp>
#include <cstddef>
#include <cstdint>
#include <string>

namespace amp {

/// Where a group's rate and counter, and the scaler's flag and inverse scale, are read from. Each group has its own
/// rate and counter; flag and inverse scale may be shared.
struct capturable_memory {
  float* lr = nullptr;
  std::int64_t* step = nullptr;             ///< done steps
  const std::int32_t* found_inf = nullptr;  ///< null: never skips
  const float* inv_scale = nullptr;         ///< null: 1
};

/// The tensors of a capturable step. `copies` are low parameters that take the rounded masters; entries without data
/// have none, an empty list stands for no copies.
struct capturable_lists {
  tensor_list weights, moments1, moments2, grads;
  tensor_list copies = {};
};

/// Advances the counter unless the flag of *this* step is set, then steps. Gradients are multiplied by the inverse
/// scale, used, and written back so.
/// types   weights and gradients any; moments fp32 or bf16
/// throws  amp::error for a null pointer, malformed lists and moments of formats that need a scale
template <class E>
void capturable_step(const E& executor, const Adam& o, const capturable_memory& memory, const capturable_lists& lists,
                     where at = where::here()) {
  o.validate(at);
  expects(memory.lr != nullptr && memory.step != nullptr, "capturable_step: lr and step need memory", at);
  for (const tensor_list moments : {lists.moments1, lists.moments2}) {
    for (std::size_t t = 0; t < moments.size(); ++t)
      expects(
          moments[t].type == dtype::fp32 || moments[t].type == dtype::bf16,
          [&] {
            return "capturable_step: the moment of tensor " + std::to_string(t) + " is " +
                   std::string(name(moments[t].type)) + "; use fp32 or bf16";
          },
          at);
  }
  if (memory.found_inf == nullptr || *memory.found_inf == 0) ++*memory.step;
  const bool inside = o.eps_at == eps_place::inside_root;
  const fn::CapturableAdam f{.beta1 = o.beta1,
                             .beta2 = o.beta2,
                             .eps = static_cast<float>(inside ? 0. : o.eps),
                             .eps_inside = static_cast<float>(inside ? o.eps : 0.),
                             .decay = static_cast<float>(o.weight_decay),
                             .decoupled = o.mode == decay::decoupled,
                             .bias_correction = o.bias_correction,
                             .lr = memory.lr,
                             .step = memory.step,
                             .found_inf = memory.found_inf,
                             .inv_scale = memory.inv_scale};
  const auto m = lane::inout(lists.moments1), v = lane::inout(lists.moments2);
  if (lists.copies.empty()) {
    detail::apply_lanes(at, executor, f, lane::inout(lists.weights), m, v, lane::inout(lists.grads));
  } else {
    detail::apply_lanes(at, executor, f, lane::inout_with_copy(lists.weights, lists.copies), m, v,
                        lane::inout(lists.grads));
  }
}

}  // namespace amp
