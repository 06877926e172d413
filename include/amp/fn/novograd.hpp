/// One step of NovoGrad on fp32 lanes (weight, first moment, gradient).
#pragma once
#include <amp/apply/plan.hpp>
#include <amp/core/config.hpp>

namespace amp::fn {

/// With d = kept/c2 + eps of the tensor. Regularised inside the moment: g' = g/d + wd*w; m = b1*m + b3*g';
/// w -= lr*m/c1. Else: m = b1*m + b3*g; w -= lr*((m/c1)/d + wd*w).
/// source  Ginsburg et al. 2019 (arXiv:1905.11286), in the form of apex FusedNovoGrad
struct NovoGrad {
  float lr, beta1, beta3, decay;
  float inv_bias1 = 1.f;
  bool inside = false;
  const float* denominators = nullptr;  ///< per tensor of the lists
  float denominator = 1.f;              ///< that of this tensor

  [[nodiscard]] AMP_HD AMP_INLINE NovoGrad at(const apply::piece& p) const noexcept {
    NovoGrad f = *this;
    if (denominators != nullptr) f.denominator = denominators[p.tensor];
    return f;
  }

  template <class V>
  AMP_HD AMP_INLINE void operator()(V& w, V& m, const V& g) const {
    if (inside) {
      m = beta1 * m + beta3 * (g / denominator + decay * w);
      w = w - lr * (m * inv_bias1);
    } else {
      m = beta1 * m + beta3 * g;
      w = w - lr * (m * inv_bias1 / denominator + decay * w);
    }
  }
};

}  // namespace amp::fn
