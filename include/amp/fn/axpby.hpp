/// out = a * x + b * y, with a check of x, y or both.
#pragma once
#include <amp/core/check.hpp>
#include <amp/core/config.hpp>
#include <amp/multi_tensor_apply.hpp>
#include <cstdint>

namespace amp::fn {

/// Lanes (x, y, out). Two products and one sum, each rounded.
struct Axpby {
  float a, b;

  template <class V>
  AMP_HD AMP_INLINE void operator()(const V& x, const V& y, V& out) const {
    out = a * x + b * y;
  }
};

/// Which inputs an axpby reports on.
enum class axpby_check : std::uint8_t { x, y, both };

/// out = a * x + b * y for lists of any formats; `out` may be x or y.
/// throws  amp::error naming list (0 x, 1 y, 2 out) and tensor
template <class E>
void axpby(const E& executor, float a, tensor_list x, float b, tensor_list y, tensor_list out, nonfinite_report& report,
           axpby_check check = axpby_check::both, where at = where::here()) {
  const Axpby f{a, b};
  nonfinite_report ignored;
  // Always both: one instantiation; the selector says whose findings count.
  amp::detail::apply_lanes(at, executor, f, lane::in(x).check(check == axpby_check::y ? ignored : report),
                           lane::in(y).check(check == axpby_check::x ? ignored : report), lane::out(out));
}

}  // namespace amp::fn
