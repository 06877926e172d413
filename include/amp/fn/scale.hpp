/// out = a * in, with a check of the input, the output or both.
#pragma once
#include <amp/apply/plan.hpp>
#include <amp/core/check.hpp>
#include <amp/core/config.hpp>
#include <amp/multi_tensor_apply.hpp>
#include <cstdint>

namespace amp::fn {

/// Lanes (out, in).
struct Scale {
  float a;

  template <class V>
  AMP_HD AMP_INLINE void operator()(V& out, const V& in) const {
    out = a * in;
  }
};

/// The same with the factor in memory: read when the pass runs, not when it is asked for.
struct ScaleFrom {
  const float* a;

  [[nodiscard]] AMP_HD AMP_INLINE Scale at(const apply::piece&) const noexcept { return {*a}; }
  template <class V>
  AMP_HD AMP_INLINE void operator()(V& out, const V& in) const {
    out = *a * in;
  }
};

/// What a scale reports on: infinite or NaN inputs, or outputs that are so once rounded to their format.
enum class scale_check : std::uint8_t { input, output, both };

namespace detail {
template <class E, class F>
void checked_scale(const E& executor, const F& functor, tensor_list out, tensor_list in, nonfinite_report& report,
                   scale_check check, where at) {
  if (check == scale_check::input) {
    amp::detail::apply_lanes(at, executor, functor, lane::out(out), lane::in(in).check(report));
    return;
  }
  nonfinite_report ignored;
  amp::detail::apply_lanes(at, executor, functor, lane::out(out).check(report),
                           lane::in(in).check(check == scale_check::both ? report : ignored));
}
}  // namespace detail

/// out = a * in for lists of any formats, in place too. `report` hears of infinite or NaN *inputs*; they are written
/// all the same. A finite product that overflows a low `out` gives infinity, and a report only with
/// scale_check::output.
/// throws  amp::error naming list (0 out, 1 in) and tensor
template <class E>
void scale(const E& executor, tensor_list out, tensor_list in, float a, nonfinite_report& report,
           scale_check check = scale_check::input, where at = where::here()) {
  detail::checked_scale(executor, Scale{a}, out, in, report, check, at);
}
/// The factor is read from memory when the pass runs.
template <class E>
void scale(const E& executor, tensor_list out, tensor_list in, const float* a, nonfinite_report& report,
           scale_check check = scale_check::input, where at = where::here()) {
  expects(a != nullptr, "scale: the pointer to the factor is null", at);
  detail::checked_scale(executor, ScaleFrom{a}, out, in, report, check, at);
}

}  // namespace amp::fn
