/// One step of Adam, AdamW and the older Hugging Face AdamW on fp32 lanes (weight, first moment, second moment,
/// gradient). 1 - beta is computed in double by the caller: `1.f - 0.999f` is wrong by 1.3e-5. No fma: the base target
/// has none.
#pragma once
#include <amp/core/config.hpp>
#include <amp/simd/math.hpp>

namespace amp::fn {

namespace detail {
/// m and v of all Adams. `f` has beta1, one_minus_beta1, beta2, one_minus_beta2.
template <class F, class V>
AMP_HD AMP_INLINE void adam_moments(const F& f, V& m, V& v, const V& g) {
  m = f.beta1 * m + f.one_minus_beta1 * g;
  v = f.beta2 * v + f.one_minus_beta2 * g * g;
}
/// (m/c1) / (sqrt(v/c2 + eps_inside) + eps). Adding an eps of 0 changes no bit, and needs no branch.
template <class F, class V>
AMP_HD AMP_INLINE V adam_direction(const F& f, const V& m, const V& v) {
  using simd::sqrt;
  return m * f.inv_bias1 / (sqrt(v * f.inv_bias2 + f.eps_inside) + f.eps);
}
}  // namespace detail

/// Decoupled decay: u = (m/c1)/(sqrt(v/c2) + eps) + wd*w, w -= lr*u, with c = 1 - beta^t. With a fourth lane, the
/// largest v so far, which then stands in the root (AMSGrad).
/// source  Loshchilov & Hutter 2019 (arXiv:1711.05101), algorithm 2; Reddi et al. 2018 (arXiv:1904.09237), as torch
struct AdamW {
  float lr, beta1, one_minus_beta1, beta2, one_minus_beta2, eps, decay;
  float inv_bias1 = 1.f, inv_bias2 = 1.f;  ///< 1/(1 - beta^t); 1 without bias correction
  float eps_inside = 0.f;                  ///< added within the root; then eps is 0

  template <class V>
  AMP_HD AMP_INLINE void operator()(V& w, V& m, V& v, const V& g) const {
    detail::adam_moments(*this, m, v, g);
    w = w - lr * (detail::adam_direction(*this, m, v) + decay * w);
  }
  template <class V>
  AMP_HD AMP_INLINE void operator()(V& w, V& m, V& v, V& largest, const V& g) const {
    using simd::max;
    detail::adam_moments(*this, m, v, g);
    largest = max(v, largest);  // this order keeps a NaN
    w = w - lr * (detail::adam_direction(*this, m, largest) + decay * w);
  }
};

/// L2 regularisation: the decay is part of the gradient.
/// source  Kingma & Ba 2015 (arXiv:1412.6980), algorithm 1
struct Adam {
  float lr, beta1, one_minus_beta1, beta2, one_minus_beta2, eps, decay;
  float inv_bias1 = 1.f, inv_bias2 = 1.f;
  float eps_inside = 0.f;  ///< added within the root; then eps is 0

  template <class V>
  AMP_HD AMP_INLINE void operator()(V& w, V& m, V& v, const V& gradient) const {
    detail::adam_moments(*this, m, v, V(gradient + decay * w));
    w = w - lr * detail::adam_direction(*this, m, v);
  }
  template <class V>
  AMP_HD AMP_INLINE void operator()(V& w, V& m, V& v, V& largest, const V& gradient) const {
    using simd::max;
    detail::adam_moments(*this, m, v, V(gradient + decay * w));
    largest = max(v, largest);
    w = w - lr * detail::adam_direction(*this, m, largest);
  }
};

/// Hugging Face's AdamW of transformers 2-4, which ClipBERT trains with: the bias correction is part of the step size,
/// eps is added to the uncorrected root, and the decay acts on the weight that was already stepped.
struct HfAdamW {
  float step_size;  ///< lr * sqrt(1 - beta2^t) / (1 - beta1^t); lr without bias correction
  float beta1, one_minus_beta1, beta2, one_minus_beta2, eps;
  float lr_decay;  ///< lr * weight decay

  template <class V>
  AMP_HD AMP_INLINE void operator()(V& w, V& m, V& v, const V& g) const {
    using simd::sqrt;
    detail::adam_moments(*this, m, v, g);
    w = w - step_size * (m / (sqrt(v) + eps));
    w = w - lr_decay * w;
  }
};

}  // namespace amp::fn
