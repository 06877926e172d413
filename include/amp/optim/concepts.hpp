/// What an optimizer is: it says how one element moves, not how tensors are walked or stored.
#pragma once
#include <amp/core/check.hpp>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace amp {

/// The options of one parameter group and its step counter, which counts done steps only.
template <class Options>
struct StepGroup {
  Options options;
  std::int64_t step = 0;

  constexpr StepGroup() = default;
  /// throws  amp::error if an option is out of range
  explicit constexpr StepGroup(const Options& o, where at = where::here()) : options(o) { options.validate(at); }
};

/// A group of an optimizer that looks at whole tensors: besides, floats per tensor that are state (saved and loaded
/// with the moments, one vector per name in Options::tensor_state_names, one entry per parameter of the group), and the
/// coefficients of the step that is being made, which the functor points at.
template <class Options>
struct TensorGroup : StepGroup<Options> {
  using StepGroup<Options>::StepGroup;
  std::array<std::vector<float>, static_cast<std::size_t>(Options::tensor_states)> tensor_state;
  std::vector<float> coefficients;
};

/// One step over the tensors of a group that have a gradient, as an optimizer that looks at whole tensors sees it.
/// Lanes are read by `apply::fold`; nothing is written before the functor runs.
template <class Executor, class Weights, class Moments, class Grads>
struct StepLanes {
  const Executor& executor;
  Weights weights;                         ///< lane of what is stepped
  Moments moments;                         ///< std::tuple of lanes
  Grads grads;                             ///< lane with the folded factor: reads unscaled, clipped gradients
  std::span<const std::uint8_t> first;     ///< per tensor: 1 if it has no state yet
  std::span<const std::size_t> parameter;  ///< per tensor: its index among the parameters of the group
  std::size_t parameters;                  ///< of the group, those without a gradient included
  double grad_norm = 0.;  ///< 2-norm of what `grads` reads over all groups; only where wants_grad_norm asked

  [[nodiscard]] std::size_t size() const noexcept { return parameter.size(); }
  /// Calls f(weights, moments..., grads): the lanes in the functor's order.
  template <class F>
  decltype(auto) with_lanes(F&& f) const {
    return std::apply([&](const auto&... moment) -> decltype(auto) { return f(weights, moment..., grads); }, moments);
  }
};

template <class E, class W, class M, class G>
StepLanes(const E&, W, M, G, std::span<const std::uint8_t>, std::span<const std::size_t>, std::size_t, double)
    -> StepLanes<E, W, M, G>;

namespace detail {
template <class O>
concept StepsElements = requires(const O opt, const typename O::group& c) {
  opt.functor(c);
};
template <class O>
concept StepsTensors = requires {
  { O::whole_tensors } -> std::convertible_to<bool>;
};
}  // namespace detail

/// An optimizer is the set of options that a group starts from: `Adam{.lr = 1e-3}`.
///   states          fp32 lanes of state per element: 2 for Adam
///   group           options and counters of one parameter group
///   next_step(g)    advances the counter of a group; not called for a skipped step
///   functor(g)      the lane functor (w, states..., g) of the step that the counter stands at
/// Optional: `functor(g, first)` with one byte per tensor, 1 where its state is fresh (SGD: the first gradient becomes
/// the momentum); `stateless(g)` where a group needs no state, the functor then takes (w, g).
/// One that looks at whole tensors (LAMB, NovoGrad, LARC) says `whole_tensors = true` and has, in place of functor(g),
///   functor(g, step)    for a StepLanes: folds over its lanes, leaves coefficients per tensor in the group, and
///                       returns a functor whose at(piece) reads them
///   wants_grad_norm(g)  optional: whether step.grad_norm is needed
template <class O>
concept Optimizer = std::copyable<O> && requires(const O opt, typename O::group& g) {
  { O::states } -> std::convertible_to<int>;
  opt.next_step(g);
} &&(detail::StepsElements<O> || detail::StepsTensors<O>);

/// An optimizer whose functor needs a StepLanes.
template <class O>
concept TensorOptimizer = Optimizer<O> && detail::StepsTensors<O>;

namespace detail {
/// Whether an optimizer's k-th state is a sum of squares, whose root is what fits an 8-bit format.
template <class Opt>
constexpr bool holds_squares(int k) noexcept {
  if constexpr (requires { Opt::squares[0]; }) return Opt::squares[k];
  return false;
}
/// Throws amp::error "Adam: lr must be ..." unless ok.
constexpr void option(bool ok, std::string_view optimizer, std::string_view text, where at) {
  expects(
      ok, [&] { return std::string(optimizer) + ": " + std::string(text); }, at);
}
// Steps compute in fp32, where larger values are infinite and smaller ones than 2^-126 count as 0.
constexpr bool finite_from_zero(double x) { return x >= 0. && x <= 0x1.fffffep127; }
constexpr bool finite_above_zero(double x) { return x >= 0x1p-126 && x <= 0x1.fffffep127; }
constexpr bool decay_rate(double b) { return b >= 0. && b < 1.; }

/// The checks that all optimizers share.
template <class Options>
constexpr void check_options(const Options& o, std::string_view optimizer, where at) {
  option(finite_from_zero(o.lr), optimizer, "lr must be 0 or positive, and finite", at);
  option(finite_from_zero(o.weight_decay), optimizer, "weight_decay must be 0 or positive, and finite", at);
  if constexpr (requires { o.beta1; }) {
    option(decay_rate(o.beta1) && decay_rate(o.beta2), optimizer, "betas must lie in [0, 1)", at);
  }
  if constexpr (requires { o.eps; }) {
    option(finite_from_zero(o.eps), optimizer, "eps must be 0 or positive, and finite", at);
  }
}

/// 1 - beta^t in double; 1 where there is no correction.
[[nodiscard]] inline double bias_correction_of(double beta, std::int64_t t, bool on = true) {
  return on ? 1. - std::pow(beta, static_cast<double>(t)) : 1.;
}
}  // namespace detail

/// Where weight decay enters: `decoupled` shrinks the weight (AdamW), `l2` is part of the gradient (Adam).
enum class decay : std::uint8_t { decoupled, l2 };

}  // namespace amp
