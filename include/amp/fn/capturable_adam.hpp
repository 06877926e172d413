/// Adam whose step is described by memory: what is there when the pass runs counts, so that a recorded pass can be
/// replayed.
#pragma once
#include <amp/apply/plan.hpp>
#include <amp/core/config.hpp>
#include <amp/fn/adam.hpp>
#include <cmath>
#include <cstdint>

namespace amp::fn {

/// Lanes (weight, first moment, second moment, gradient), all written: the gradient becomes g * inv_scale. Does nothing
/// while the flag is 1.
struct CapturableAdam {
  double beta1, beta2;
  float eps, eps_inside, decay;
  bool decoupled, bias_correction;
  const float* lr;
  const std::int64_t* step;       ///< that of this step: from 1
  const std::int32_t* found_inf;  ///< null: never skips
  const float* inv_scale;         ///< null: 1

  /// The same with the values of this moment.
  struct Now {
    AdamW step;
    float inv_scale;
    bool decoupled;

    template <class V>
    AMP_HD AMP_INLINE void operator()(V& w, V& m, V& v, V& g) const {
      g = inv_scale * g;
      if (decoupled) {
        step(w, m, v, static_cast<const V&>(g));
      } else {
        const Adam l2{step.lr,  step.beta1, step.one_minus_beta1, step.beta2,     step.one_minus_beta2,
                      step.eps, step.decay, step.inv_bias1,       step.inv_bias2, step.eps_inside};
        l2(w, m, v, static_cast<const V&>(g));
      }
    }
  };

  [[nodiscard]] AMP_HD AMP_INLINE bool skips() const noexcept { return found_inf != nullptr && *found_inf != 0; }

  /// Powers of beta in double, per piece.
  [[nodiscard]] AMP_HD Now now() const noexcept {
    const auto t = static_cast<double>(*step);
    const double c1 = bias_correction ? 1. - std::pow(beta1, t) : 1.;
    const double c2 = bias_correction ? 1. - std::pow(beta2, t) : 1.;
    return {{*lr, static_cast<float>(beta1), static_cast<float>(1. - beta1), static_cast<float>(beta2),
             static_cast<float>(1. - beta2), eps, decay, static_cast<float>(1. / c1), static_cast<float>(1. / c2),
             eps_inside},
            inv_scale == nullptr ? 1.f : *inv_scale,
            decoupled};
  }
  [[nodiscard]] AMP_HD Now at(const apply::piece&) const noexcept { return now(); }

  template <class V>
  AMP_HD AMP_INLINE void operator()(V& w, V& m, V& v, V& g) const {
    now()(w, m, v, g);
  }
};

}  // namespace amp::fn
