/// out = a * x + b * y, with a check of x, y or both.
#pragma once
#include <amp/core/check.hpp>
#include <amp/core/config.hpp>
#include <amp/multi_tensor_apply.hpp>
#include <cstdint>

namespace amp::fn {

/// Lanes (out, x, y). Two products and one sum, each rounded.
struct Axpby {
  float a, b;

  template <class V>
  AMP_HD AMP_INLINE void operator()(V& out, const V& x, const V& y) const {
    out = a * x + b * y;
  }
};

/// Which inputs an axpby reports on.
enum class axpby_check : std::uint8_t { x, y, both };

/// out = a * x + b * y for lists of any formats; `out` may be x or y.
/// throws  amp::error naming list (0 out, 1 x, 2 y) and tensor
template <class E>
void axpby(const E& executor, tensor_list out, float a, tensor_list x, float b, tensor_list y, nonfinite_report& report,
           axpby_check check = axpby_check::both, where at = where::here()) {
  nonfinite_report ignored;
  // Both lanes look, so that there is one instantiation; the selector says whose findings count.
  amp::detail::apply_lanes(at, executor, Axpby{a, b}, lane::out(out),
                           lane::in(x).check(check == axpby_check::y ? ignored : report),
                           lane::in(y).check(check == axpby_check::x ? ignored : report));
}

}  // namespace amp::fn
