/// One step of Adam, AdamW and the older Hugging Face AdamW on fp32 lanes (weight, first moment, second moment,
/// gradient). 1 - beta is computed in double by the caller: `1.f - 0.999f` is wrong by 1.3e-5. No fma: the base target
/// has none.
#pragma once
#include <amp/core/config.hpp>
#include <amp/simd/math.hpp>

namespace amp::fn {

/// Decoupled decay: u = (m/c1) / (sqrt(v/c2) + eps) + wd*w, w -= lr*u, with c = 1 - beta^t.
/// source  Loshchilov & Hutter 2019 (arXiv:1711.05101), algorithm 2
struct AdamW {
  float lr, beta1, one_minus_beta1, beta2, one_minus_beta2, eps, decay;
  float inv_bias1 = 1.f, inv_bias2 = 1.f;  ///< 1/(1 - beta^t); 1 without bias correction

  template <class V>
  AMP_HD AMP_INLINE void operator()(V& w, V& m, V& v, const V& g) const {
    using simd::sqrt;
    m = beta1 * m + one_minus_beta1 * g;
    v = beta2 * v + one_minus_beta2 * g * g;
    w = w - lr * (m * inv_bias1 / (sqrt(v * inv_bias2) + eps) + decay * w);
  }
};

/// L2 regularisation: the decay is part of the gradient.
/// source  Kingma & Ba 2015 (arXiv:1412.6980), algorithm 1
struct Adam {
  float lr, beta1, one_minus_beta1, beta2, one_minus_beta2, eps, decay;
  float inv_bias1 = 1.f, inv_bias2 = 1.f;

  template <class V>
  AMP_HD AMP_INLINE void operator()(V& w, V& m, V& v, const V& gradient) const {
    using simd::sqrt;
    const V g = gradient + decay * w;
    m = beta1 * m + one_minus_beta1 * g;
    v = beta2 * v + one_minus_beta2 * g * g;
    w = w - lr * (m * inv_bias1 / (sqrt(v * inv_bias2) + eps));
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
    m = beta1 * m + one_minus_beta1 * g;
    v = beta2 * v + one_minus_beta2 * g * g;
    w = w - step_size * (m / (sqrt(v) + eps));
    w = w - lr_decay * w;
  }
};

}  // namespace amp::fn
