/// The session: a cast model, its optimizers and its loss scalers, and the order in which they work.
#pragma once
#include <amp/core/check.hpp>
#include <amp/opt_level.hpp>
#include <amp/optim/clip.hpp>
#include <amp/session/model.hpp>
#include <amp/session/options.hpp>
#include <amp/session/training.hpp>
#include <amp/tensor/param.hpp>
#include <concepts>
#include <cstddef>
#include <utility>
#include <vector>

namespace amp {

/// What scale_loss and clip_grad_norm take.
template <class S>
concept TrainingSession = requires(S s, const scale_options& o, where at) {
  { S::level } -> std::convertible_to<OptLevel>;
  s.begin_backward(o, at);
  s.end_backward(o, at);
};

/// A session over a network without a tensor library. The network comes in fp32 and lies in the session, as the level
/// stores it; several networks are a std::tuple, a std::vector or a std::array, and come back as one. An optimizer is
/// an Optimizer, a Group or a std::vector of Groups, and several are a std::tuple. Usage: `auto session =
/// amp::initialize<amp::O2>(Mlp<float>{}, amp::Adam{.lr = 1e-3}, {.num_losses = 2});`
/// throws  amp::error for options out of range, and naming a parameter that is low already where the level casts it
template <OptLevel L, class Net, class Opt, class Options = init_options<level_policy<L>>>
auto initialize(Net network, Opt optimizers, Options options = {}, where at = where::here());

/// Runs `backward(scaled loss)` and takes the gradients that it left: checks them, moves the loss scale, and marks the
/// step to be skipped after an overflow. The scaled loss is fp32, whatever the loss is.
/// A callback and no scope guard: the end of the scope may throw, which a destructor must not while unwinding.
/// throws  amp::error for options that do not fit; `diverged` after too many overflows in a row
template <class Loss, TrainingSession S, class Backward>
void scale_loss(const Loss& loss, S& session, Backward&& backward, const scale_options& options = {},
                where at = where::here()) {
  if constexpr (!S::level.enabled) {
    std::forward<Backward>(backward)(loss);
  } else {
    session.begin_backward(options, at);
    std::forward<Backward>(backward)(loss_traits<Loss>::scaled(loss, session.loss_scale(options.loss_id, at)));
    session.end_backward(options, at);
  }
}

/// Makes the next step use gradients whose norm is at most `max_norm`: the factor min(1, max_norm / (norm + 1e-6)) is
/// folded into the step, the gradients themselves are not touched. Returns the norm before clipping, of the unscaled
/// gradients, which does not depend on the loss scale.
/// throws  amp::error on gradients that are still scaled, if max_norm is not positive, and, if asked to, for a
///         norm that is not finite
template <TrainingSession S>
double clip_grad_norm(S& session, double max_norm, const clip_options& options = {}, where at = where::here()) {
  return session.clip_gradients(max_norm, options, at);
}

/// The tensors that the I-th optimizer really steps, in group order: fp32 masters in place of low parameters, fp32 ones
/// as they are.
/// throws  amp::error if a low parameter has no fp32 master; for_each_master shows those too
template <std::size_t I = 0, TrainingSession S>
[[nodiscard]] std::vector<Param> master_params(const S& session, where at = where::here()) {
  return session.template optimizer<I>().master_params(at);
}

}  // namespace amp

#include <amp/session/steps.hpp>
