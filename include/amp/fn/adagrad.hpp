/// One step of Adagrad on fp32 lanes (weight, sum of squares, gradient).
#pragma once
#include <amp/core/config.hpp>
#include <amp/simd/math.hpp>

namespace amp::fn {

/// L2: g += wd*w first. h += g^2; u = g/(sqrt(h) + eps); decoupled: u += wd*w; w -= lr*u.
/// source  Duchi, Hazan & Singer 2011 (JMLR 12), in the form of apex FusedAdagrad
struct Adagrad {
  float lr, eps, decay;
  bool decoupled;

  template <class V>
  AMP_HD AMP_INLINE void operator()(V& w, V& h, const V& gradient) const {
    using simd::sqrt;
    V g = gradient;
    if (!decoupled) g = g + decay * w;
    h = h + g * g;
    V u = g / (sqrt(h) + eps);
    if (decoupled) u = u + decay * w;
    w = w - lr * u;
  }
};

}  // namespace amp::fn
