/// Adam and AdamW, AMSGrad, and the older Hugging Face AdamW.
#pragma once
#include <amp/core/check.hpp>
#include <amp/core/config.hpp>
#include <amp/fn/adam.hpp>
#include <amp/optim/concepts.hpp>
#include <cmath>
#include <cstdint>

namespace amp {

/// Where eps is added: to the root of v, or to v within the root.
enum class eps_place : std::uint8_t { outside_root, inside_root };

namespace detail {
/// What Adam and Adam with AMSGrad share; without it there is no third state and no trace of it in the step.
template <bool Amsgrad>
struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.;
  decay mode = decay::decoupled;  ///< apex FusedAdam adam_w_mode
  bool bias_correction = true;
  eps_place eps_at = eps_place::outside_root;

  static constexpr int states = Amsgrad ? 3 : 2;
  static constexpr const char* state_names[3] = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
  static constexpr bool squares[3] = {false, true, true};
  using group = StepGroup<AdamOptions>;

  /// fn::AdamW and fn::Adam behind one type. The mode is the same for all elements, so the branch is always predicted.
  struct Functor {
    fn::AdamW step;
    bool decoupled;

    [[nodiscard]] AMP_HD AMP_INLINE fn::Adam l2() const {
      return {step.lr,  step.beta1, step.one_minus_beta1, step.beta2,     step.one_minus_beta2,
              step.eps, step.decay, step.inv_bias1,       step.inv_bias2, step.eps_inside};
    }
    template <class V>
    AMP_HD AMP_INLINE void operator()(V& w, V& m, V& v, const V& g) const {
      decoupled ? step(w, m, v, g) : l2()(w, m, v, g);
    }
    template <class V>
    AMP_HD AMP_INLINE void operator()(V& w, V& m, V& v, V& largest, const V& g) const {
      decoupled ? step(w, m, v, largest, g) : l2()(w, m, v, largest, g);
    }
  };

  static constexpr void next_step(group& g) noexcept { ++g.step; }
  /// Powers of beta and 1 - beta are computed in double, rounded once.
  [[nodiscard]] static Functor functor(const group& g) {
    const AdamOptions& o = g.options;
    const double c1 = bias_correction_of(o.beta1, g.step, o.bias_correction);
    const double c2 = bias_correction_of(o.beta2, g.step, o.bias_correction);
    const bool inside = o.eps_at == eps_place::inside_root;
    return {{static_cast<float>(o.lr), static_cast<float>(o.beta1), static_cast<float>(1. - o.beta1),
             static_cast<float>(o.beta2), static_cast<float>(1. - o.beta2), static_cast<float>(inside ? 0. : o.eps),
             static_cast<float>(o.weight_decay), static_cast<float>(1. / c1), static_cast<float>(1. / c2),
             static_cast<float>(inside ? o.eps : 0.)},
            o.mode == decay::decoupled};
  }

  /// throws  amp::error if an option is out of range
  constexpr void validate(where at) const { check_options(*this, "Adam", at); }
};
}  // namespace detail

/// Adam with bias correction; eps outside the root unless asked.
/// source  Kingma & Ba 2015 (arXiv:1412.6980); Loshchilov & Hutter 2019 (arXiv:1711.05101)
using Adam = detail::AdamOptions<false>;

/// Adam with a third state, the largest second moment so far: `AdamAmsgrad{.lr = 1e-3}`.
/// source  Reddi, Kale & Kumar 2018 (arXiv:1904.09237), in the form of torch.optim.Adam(amsgrad=True)
using AdamAmsgrad = detail::AdamOptions<true>;

/// AdamW as transformers had it up to version 4, which ClipBERT trains with: p -= lr*sqrt(1-b2^t)/(1-b1^t) *
/// m/(sqrt(v)+eps), then p -= lr*wd*p.
/// source  transformers/optimization.py, class AdamW (removed in 5.0)
struct HfAdamW {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-6;
  double weight_decay = 0.;
  bool correct_bias = true;

  static constexpr int states = 2;
  static constexpr const char* state_names[states] = {"exp_avg", "exp_avg_sq"};
  static constexpr bool squares[states] = {false, true};
  using group = StepGroup<HfAdamW>;

  static constexpr void next_step(group& g) noexcept { ++g.step; }
  [[nodiscard]] static fn::HfAdamW functor(const group& g) {
    const HfAdamW& o = g.options;
    const double correction =
        std::sqrt(detail::bias_correction_of(o.beta2, g.step)) / detail::bias_correction_of(o.beta1, g.step);
    return {static_cast<float>(o.correct_bias ? o.lr * correction : o.lr),
            static_cast<float>(o.beta1),
            static_cast<float>(1. - o.beta1),
            static_cast<float>(o.beta2),
            static_cast<float>(1. - o.beta2),
            static_cast<float>(o.eps),
            static_cast<float>(o.lr * o.weight_decay)};
  }

  /// throws  amp::error if an option is out of range
  constexpr void validate(where at) const { detail::check_options(*this, "HfAdamW", at); }
};

static_assert(Optimizer<Adam> && Optimizer<AdamAmsgrad> && Optimizer<HfAdamW>);

}  // namespace amp
