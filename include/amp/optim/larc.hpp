/// LARC: a rate per tensor around any optimizer.
#pragma once
#include <algorithm>
#include <amp/apply/engine.hpp>
#include <amp/apply/fold.hpp>
#include <amp/core/check.hpp>
#include <amp/fn/norms.hpp>
#include <amp/optim/concepts.hpp>
#include <cmath>
#include <cstddef>
#include <type_traits>

namespace amp {

/// Options of Larc beside those of the optimizer within.
struct larc_options {
  double trust = 0.02;
  bool clip = true;   ///< never a larger rate than the optimizer's own; false: the rate is multiplied
  double eps = 1e-8;  ///< beside the norms
};

namespace detail {
/// g' = (g + wd*w) * a, then the functor within, which knows no decay.
template <class Inner>
struct LarcFunctor {
  Inner inner;
  float decay;
  const float* rates;  ///< a per tensor; negative: the tensor is not adapted
  float rate = 0.f;

  [[nodiscard]] AMP_HD AMP_INLINE LarcFunctor at(const apply::piece& p) const noexcept {
    return {apply::functor_at(inner, p), decay, rates, rates[p.tensor]};
  }
  template <class V>
  AMP_HD AMP_INLINE V adapted(const V& w, const V& g) const {
    if (rate < 0.f) return g;
    return (g + decay * w) * rate;
  }
  template <class V>
  AMP_HD AMP_INLINE void operator()(V& w, const V& g) const {
    const V own = adapted(w, g);
    inner(w, own);
  }
  template <class V>
  AMP_HD AMP_INLINE void operator()(V& w, V& a, const V& g) const {
    const V own = adapted(w, g);
    inner(w, a, own);
  }
  template <class V>
  AMP_HD AMP_INLINE void operator()(V& w, V& a, V& b, const V& g) const {
    const V own = adapted(w, g);
    inner(w, a, b, own);
  }
  template <class V>
  AMP_HD AMP_INLINE void operator()(V& w, V& a, V& b, V& c, const V& g) const {
    const V own = adapted(w, g);
    inner(w, a, b, c, own);
  }
};

/// The two values whose squares the adaptive rate needs.
struct WeightAndGrad {
  template <class V>
  AMP_HD AMP_INLINE void operator()(V (&value)[2], const V& w, const V& g) const {
    value[0] = w;
    value[1] = g;
  }
};
}  // namespace detail

/// Per tensor whose weight and gradient are not zero: a = trust*|w| / (|g| + wd*|w| + eps); with clip, a = min(a/lr,
/// 1); the optimizer within steps on (g + wd*w)*a without decay of its own. Other tensors are stepped on g, without
/// decay. Usage: `Larc{Sgd{.lr = 0.1, .momentum = 0.9}, {.trust = 0.01}}`
/// source  You, Gitman & Ginsburg 2017 (arXiv:1708.03888), in the form of apex LARC
template <Optimizer Inner>
struct Larc : Inner {
  static_assert(!TensorOptimizer<Inner>,
                "amp: LAMB and NovoGrad adapt the rate of a tensor themselves; put Larc around Sgd, Adam or the like");
  double trust = 0.02;
  bool clip = true;
  double larc_eps = 1e-8;

  Larc() = default;
  explicit constexpr Larc(const Inner& inner, const larc_options& o = {})
      : Inner(inner), trust(o.trust), clip(o.clip), larc_eps(o.eps) {}

  static constexpr bool whole_tensors = true;
  static constexpr int tensor_states = 0;

  /// Options and counter as ever, and the inner optimizer's group, whose decay is always 0.
  struct group : TensorGroup<Larc> {
    using TensorGroup<Larc>::TensorGroup;
    typename Inner::group inner{};
  };

  static void next_step(group& g) {
    take_options(g);
    Inner::next_step(g.inner);
    g.step = g.inner.step;
  }
  /// One pass over weights and gradients for their norms.
  template <class Step>
  [[nodiscard]] static auto functor(group& g, const Step& step) {
    const Larc& o = g.options;
    const auto norms =
        apply::fold<2>(step.executor, apply::sum_of_squares{}, detail::WeightAndGrad{}, step.weights, step.grads);
    g.coefficients.resize(step.size());
    for (std::size_t t = 0; t < step.size(); ++t)
      g.coefficients[t] = o.adaptive_rate(std::sqrt(norms[0].per_tensor[t]), std::sqrt(norms[1].per_tensor[t]));
    const auto inner = [&] {
      if constexpr (requires { Inner::functor(g.inner, step.first.data()); }) {
        return Inner::functor(g.inner, step.first.data());
      } else {
        return Inner::functor(g.inner);
      }
    }();
    return detail::LarcFunctor<std::remove_const_t<decltype(inner)>>{inner, static_cast<float>(o.weight_decay),
                                                                     g.coefficients.data()};
  }

  /// throws  amp::error if an option is out of range, of the optimizer within too
  constexpr void validate(where at) const {
    Inner::validate(at);
    detail::option(trust > 0. && detail::finite_from_zero(trust), "Larc", "trust must be positive and finite", at);
    detail::option(detail::finite_from_zero(larc_eps), "Larc", "eps must be 0 or positive, and finite", at);
  }

 private:
  [[nodiscard]] static typename Inner::group inner_of(const group& g) {
    typename Inner::group inner = g.inner;
    inner.options = g.options;
    inner.options.weight_decay = 0.;
    inner.step = g.step;
    return inner;
  }
  static void take_options(group& g) { g.inner = inner_of(g); }

  /// Negative where a norm is 0: the tensor is not adapted. A rate may itself be 0, when it is too small for fp32.
  [[nodiscard]] float adaptive_rate(double w, double g) const noexcept {
    if (!(w != 0. && g != 0.)) return -1.f;
    const double a = trust * w / (g + this->weight_decay * w + larc_eps);
    return static_cast<float>(clip ? std::min(a / this->lr, 1.) : a);  // 1 for a rate of 0
  }
};

template <class Inner>
Larc(Inner) -> Larc<Inner>;
template <class Inner>
Larc(Inner, larc_options) -> Larc<Inner>;

}  // namespace amp
