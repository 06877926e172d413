/// Copies and fills: the cast between lists of any formats.
#pragma once
#include <amp/core/config.hpp>

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

}  // namespace amp::fn
