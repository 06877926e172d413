/// One step of LAMB on fp32 lanes (weight, first moment, second moment, gradient), and the norms that it needs first.
#pragma once
#include <amp/apply/plan.hpp>
#include <amp/core/config.hpp>
#include <amp/fn/adam.hpp>

namespace amp::fn {

/// g' = clip*g; L2: g' += wd*w; m = b1*m + b3*g'; v = b2*v + (1-b2)*g'^2; u = (m/c1)/(sqrt(v/c2) + eps);
/// decoupled: u += wd*w; w -= lr*ratio*u. The gradient is not written.
/// source  You et al. 2020 (arXiv:1904.00962), algorithm 2, in the form of apex FusedLAMB
struct Lamb {
  float beta1, beta3, beta2, one_minus_beta2, eps, decay;
  float inv_bias1 = 1.f, inv_bias2 = 1.f;
  float clip = 1.f;  ///< max_norm / norm where the norm of all gradients is above max_norm
  bool decoupled = true;
  const float* rates = nullptr;  ///< per tensor of the lists: lr * ratio
  float rate = 0.f;              ///< that of this tensor

  static constexpr float eps_inside = 0.f;

  [[nodiscard]] AMP_HD AMP_INLINE Lamb at(const apply::piece& p) const noexcept {
    Lamb f = *this;
    if (rates != nullptr) f.rate = rates[p.tensor];
    return f;
  }

  /// Moves the moments and returns u.
  template <class V>
  AMP_HD AMP_INLINE V direction(const V& w, V& m, V& v, const V& gradient) const {
    V g = clip * gradient;
    if (!decoupled) g = g + decay * w;
    m = beta1 * m + beta3 * g;
    v = beta2 * v + one_minus_beta2 * g * g;
    const V u = detail::adam_direction(*this, m, v);
    if (decoupled) return u + decay * w;
    return u;
  }
  template <class V>
  AMP_HD AMP_INLINE void operator()(V& w, V& m, V& v, const V& g) const {
    w = w - rate * direction(w, m, v, g);
  }
};

/// The values whose squares the trust ratio needs: w and u.
struct LambNorms {
  Lamb step;

  template <class V>
  AMP_HD AMP_INLINE void operator()(V (&value)[2], const V& w, const V& m, const V& v, const V& g) const {
    V next_m = m, next_v = v;
    value[0] = w;
    value[1] = step.direction(w, next_m, next_v, g);
  }
};

}  // namespace amp::fn
