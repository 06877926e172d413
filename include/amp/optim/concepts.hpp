/// What an optimizer is: it says how one element moves, not how tensors are walked or stored.
#pragma once
#include <amp/core/check.hpp>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

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

/// An optimizer is the set of options that a group starts from: `Adam{.lr = 1e-3}`.
///   states          fp32 lanes of state per element: 2 for Adam
///   group           options and counters of one parameter group
///   next_step(g)    advances the counter of a group; not called for a skipped step
///   functor(g)      the lane functor (w, states..., g) of the step that the counter stands at
/// Optional: `first_functor(g)` for tensors whose state is fresh (SGD: the first gradient becomes the momentum).
template <class O>
concept Optimizer = std::copyable<O> && requires(const O opt, typename O::group& g, const typename O::group& c) {
  { O::states } -> std::convertible_to<int>;
  opt.next_step(g);
  opt.functor(c);
};

namespace detail {
/// Throws amp::error "Adam: lr must be ..." unless ok.
constexpr void option(bool ok, std::string_view text, where at) { expects(ok, text, at); }
constexpr bool finite_from_zero(double x) { return x >= 0. && x <= 1.7976931348623157e308; }
constexpr bool decay_rate(double b) { return b >= 0. && b < 1.; }
}  // namespace detail

}  // namespace amp
