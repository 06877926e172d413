/// out = a * in, with a check of the input.
#pragma once
#include <amp/core/check.hpp>
#include <amp/core/config.hpp>
#include <amp/multi_tensor_apply.hpp>

namespace amp::fn {

/// Lanes (in, out).
struct Scale {
  float a;

  template <class V>
  AMP_HD AMP_INLINE void operator()(const V& in, V& out) const {
    out = a * in;
  }
};

/// out = a * in for lists of any formats, in place too. `report` hears of infinite or NaN *inputs*; they are written
/// all the same. A finite product that overflows a low `out` gives infinity and no report: check the output lane for
/// that. throws  amp::error naming list (0 in, 1 out) and tensor
template <class E>
void scale(const E& executor, tensor_list in, tensor_list out, float a, nonfinite_report& report,
           where at = where::here()) {
  amp::detail::apply_lanes(at, executor, Scale{a}, lane::in(in).check(report), lane::out(out));
}

}  // namespace amp::fn
