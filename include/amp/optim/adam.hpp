/// Adam and AdamW, and the older Hugging Face AdamW.
#pragma once
#include <amp/core/check.hpp>
#include <amp/core/config.hpp>
#include <amp/fn/adam.hpp>
#include <amp/optim/concepts.hpp>
#include <cmath>
#include <cstdint>

namespace amp {

/// Adam with bias correction; eps outside the root.
/// source  Kingma & Ba 2015 (arXiv:1412.6980); Loshchilov & Hutter 2019 (arXiv:1711.05101)
struct Adam {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.;
  decay mode = decay::decoupled;  ///< apex FusedAdam adam_w_mode
  bool bias_correction = true;

  static constexpr int states = 2;
  static constexpr const char* state_names[states] = {"exp_avg", "exp_avg_sq"};
  using group = StepGroup<Adam>;

  /// fn::AdamW and fn::Adam behind one type. The mode is the same for all elements, so the branch is always predicted.
  struct Functor {
    fn::AdamW step;
    bool decoupled;

    template <class V>
    AMP_HD AMP_INLINE void operator()(V& w, V& m, V& v, const V& g) const {
      if (decoupled) {
        step(w, m, v, g);
      } else {
        fn::Adam{step.lr,  step.beta1, step.one_minus_beta1, step.beta2,    step.one_minus_beta2,
                 step.eps, step.decay, step.inv_bias1,       step.inv_bias2}(w, m, v, g);
      }
    }
  };

  static constexpr void next_step(group& g) noexcept { ++g.step; }
  /// Powers of beta and 1 - beta are computed in double, rounded once.
  [[nodiscard]] static Functor functor(const group& g) {
    const Adam& o = g.options;
    const auto t = static_cast<double>(g.step);
    const double c1 = o.bias_correction ? 1. - std::pow(o.beta1, t) : 1.;
    const double c2 = o.bias_correction ? 1. - std::pow(o.beta2, t) : 1.;
    return {{static_cast<float>(o.lr), static_cast<float>(o.beta1), static_cast<float>(1. - o.beta1),
             static_cast<float>(o.beta2), static_cast<float>(1. - o.beta2), static_cast<float>(o.eps),
             static_cast<float>(o.weight_decay), static_cast<float>(1. / c1), static_cast<float>(1. / c2)},
            o.mode == decay::decoupled};
  }

  /// throws  amp::error if an option is out of range
  constexpr void validate(where at) const {
    expects(detail::finite_from_zero(lr), "Adam: lr must be 0 or positive, and finite", at);
    expects(detail::decay_rate(beta1) && detail::decay_rate(beta2), "Adam: betas must lie in [0, 1)", at);
    expects(detail::finite_from_zero(eps), "Adam: eps must be 0 or positive, and finite", at);
    expects(detail::finite_from_zero(weight_decay), "Adam: weight_decay must be 0 or positive, and finite", at);
  }
};

/// AdamW as transformers had it up to version 4, which ClipBERT trains with: p -= lr*sqrt(1-b2^t)/(1-b1^t) *
/// m/(sqrt(v)+eps), then p -= lr*wd*p. source  transformers/optimization.py, class AdamW (removed in 5.0)
struct HfAdamW {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-6;
  double weight_decay = 0.;
  bool correct_bias = true;

  static constexpr int states = 2;
  static constexpr const char* state_names[states] = {"exp_avg", "exp_avg_sq"};
  using group = StepGroup<HfAdamW>;

  static constexpr void next_step(group& g) noexcept { ++g.step; }
  [[nodiscard]] static fn::HfAdamW functor(const group& g) {
    const HfAdamW& o = g.options;
    const auto t = static_cast<double>(g.step);
    const double correction = std::sqrt(1. - std::pow(o.beta2, t)) / (1. - std::pow(o.beta1, t));
    return {static_cast<float>(o.correct_bias ? o.lr * correction : o.lr),
            static_cast<float>(o.beta1),
            static_cast<float>(1. - o.beta1),
            static_cast<float>(o.beta2),
            static_cast<float>(1. - o.beta2),
            static_cast<float>(o.eps),
            static_cast<float>(o.lr * o.weight_decay)};
  }

  /// throws  amp::error if an option is out of range
  constexpr void validate(where at) const {
    expects(detail::finite_from_zero(lr), "HfAdamW: lr must be 0 or positive, and finite", at);
    expects(detail::decay_rate(beta1) && detail::decay_rate(beta2), "HfAdamW: betas must lie in [0, 1)", at);
    expects(detail::finite_from_zero(eps), "HfAdamW: eps must be 0 or positive, and finite", at);
    expects(detail::finite_from_zero(weight_decay), "HfAdamW: weight_decay must be 0 or positive, and finite", at);
  }
};

static_assert(Optimizer<Adam> && Optimizer<HfAdamW>);

}  // namespace amp
