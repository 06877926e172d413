/// Adamax, Adam with the infinity norm.
#pragma once
#include <amp/core/check.hpp>
#include <amp/core/config.hpp>
#include <amp/optim/concepts.hpp>
#include <amp/simd/math.hpp>

namespace amp {

/// Adamax as torch.optim.Adamax: L2 decay, u = max(b2*u, |g| + eps), p -= lr/(1-b1^t) * m/u.
/// source  Kingma & Ba 2015 (arXiv:1412.6980), algorithm 2
struct Adamax {
  double lr = 2e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.;

  static constexpr int states = 2;
  static constexpr const char* state_names[states] = {"exp_avg", "exp_inf"};
  using group = StepGroup<Adamax>;

  struct Functor {
    float step_size, beta1, one_minus_beta1, beta2, eps, decay;

    template <class V>
    AMP_HD AMP_INLINE void operator()(V& w, V& m, V& u, const V& gradient) const {
      using simd::abs;
      using simd::max;
      const V g = gradient + decay * w;
      m = beta1 * m + one_minus_beta1 * g;
      u = max(abs(g) + eps, beta2 * u);  // this order keeps a NaN gradient
      w = w - step_size * (m / u);
    }
  };

  static constexpr void next_step(group& g) noexcept { ++g.step; }
  [[nodiscard]] static Functor functor(const group& g) {
    const Adamax& o = g.options;
    const double c1 = detail::bias_correction_of(o.beta1, g.step);
    return {static_cast<float>(o.lr / c1), static_cast<float>(o.beta1), static_cast<float>(1. - o.beta1),
            static_cast<float>(o.beta2),   static_cast<float>(o.eps),   static_cast<float>(o.weight_decay)};
  }

  /// throws  amp::error if an option is out of range
  constexpr void validate(where at) const {
    detail::check_options(*this, "Adamax", at);
    detail::option(detail::finite_above_zero(eps), "Adamax", "eps must be a normal fp32 number, at least 2^-126", at);
  }
};

static_assert(Optimizer<Adamax>);

}  // namespace amp
