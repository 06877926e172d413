/// out = a * in, with a check of the input.
#pragma once
#include <amp/core/check.hpp>
#include <amp/core/config.hpp>
#include <amp/multi_tensor_apply.hpp>

namespace amp::fn {

/// Lanes (out, in).
struct Scale {
  float a;

  template <class V>
  AMP_HD AMP_INLINE void operator()(V& out, const V& in) const {
    out = a * in;
  }
};

/// out = a * in for lists of any formats, in place too. `report` hears of infinite or NaN *inputs*; they are written
/// all the same. A finite product that overflows a low `out` gives infinity and no report: check the output lane for
/// that. throws  amp::error naming list (0 out, 1 in) and tensor
template <class E>
void scale(const E& executor, tensor_list out, tensor_list in, float a, nonfinite_report& report,
           where at = where::here()) {
  amp::detail::apply_lanes(at, executor, Scale{a}, lane::out(out), lane::in(in).check(report));
}

}  // namespace amp::fn
