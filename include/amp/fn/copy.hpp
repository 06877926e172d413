/// Copies and fills: the cast between lists of any formats.
#pragma once
#include <amp/core/check.hpp>
#include <amp/core/config.hpp>
#include <amp/multi_tensor_apply.hpp>
#include <amp/tensor/list.hpp>

namespace amp::fn {

/// out = in, rounded to the format of out: lanes (out, in).
struct Copy {
  template <class V>
  AMP_HD AMP_INLINE void operator()(V& out, const V& in) const {
    out = in;
  }
};

/// out = value: lane (out). `Fill{}` zeroes.
struct Fill {
  float value = 0.f;

  template <class V>
  AMP_HD AMP_INLINE void operator()(V& out) const {
    out = value;
  }
};

/// out = in for lists of any formats, rounded once.
/// throws  amp::error naming list (0 out, 1 in) and tensor
template <class E>
void copy(const E& executor, tensor_list out, tensor_list in, where at = where::here()) {
  amp::detail::apply_lanes(at, executor, Copy{}, lane::out(out), lane::in(in));
}
/// Every element becomes `value`, rounded to its format.
template <class E>
void fill(const E& executor, tensor_list out, float value, where at = where::here()) {
  amp::detail::apply_lanes(at, executor, Fill{value}, lane::out(out));
}
/// Every element becomes +0.
template <class E>
void zero(const E& executor, tensor_list out, where at = where::here()) {
  fill(executor, out, 0.f, at);
}

}  // namespace amp::fn
