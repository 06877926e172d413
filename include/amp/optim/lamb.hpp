/// LAMB: Adam with a trust ratio per tensor.
#pragma once
#include <amp/apply/fold.hpp>
#include <amp/core/check.hpp>
#include <amp/fn/lamb.hpp>
#include <amp/optim/concepts.hpp>
#include <cmath>
#include <cstddef>

namespace amp {

/// The gradient of all groups is brought to a norm of at most max_grad_norm; then each tensor moves by lr * ratio * u
/// with ratio = |w| / |u|, or 1 where one of them is 0. Low parameters with masters and scaled gradients are the
/// business of MasterWeights, as for any optimizer: the norm here is that of the unscaled gradients.
/// source  You et al. 2020 (arXiv:1904.00962); defaults: apex FusedLAMB
struct Lamb {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-6;
  double weight_decay = 0.01;
  double max_grad_norm = 1.;  ///< 0: no clipping
  decay mode = decay::decoupled;
  bool bias_correction = true;
  bool grad_averaging = true;  ///< m takes (1 - beta1) * g; false: g
  bool nvlamb = false;         ///< the ratio also where weight_decay is 0

  static constexpr int states = 2;
  static constexpr const char* state_names[states] = {"exp_avg", "exp_avg_sq"};
  static constexpr bool squares[states] = {false, true};
  static constexpr bool whole_tensors = true;
  static constexpr int tensor_states = 0;
  using group = TensorGroup<Lamb>;

  static constexpr void next_step(group& g) noexcept { ++g.step; }
  [[nodiscard]] static constexpr bool wants_grad_norm(const group& g) noexcept { return g.options.max_grad_norm > 0.; }

  /// One pass for the two norms of each tensor, unless the ratio is 1 everywhere.
  template <class Step>
  [[nodiscard]] static fn::Lamb functor(group& g, const Step& step) {
    const Lamb& o = g.options;
    fn::Lamb f = coefficients(g, step.grad_norm);
    g.coefficients.assign(step.size(), static_cast<float>(o.lr));
    if (o.weight_decay != 0. || o.nvlamb) {
      const auto norms = step.with_lanes([&](const auto&... lane) {
        return apply::fold<2>(step.executor, apply::sum_of_squares{}, fn::LambNorms{f}, lane...);
      });
      for (std::size_t t = 0; t < step.size(); ++t)
        g.coefficients[t] = static_cast<float>(o.lr * trust_ratio(norms[0].per_tensor[t], norms[1].per_tensor[t]));
    }
    f.rates = g.coefficients.data();
    return f;
  }

  /// throws  amp::error if an option is out of range
  constexpr void validate(where at) const {
    detail::check_options(*this, "Lamb", at);
    detail::option(detail::finite_from_zero(max_grad_norm), "Lamb", "max_grad_norm must be 0 (none) or positive", at);
  }

 private:
  [[nodiscard]] static double trust_ratio(double w_squared, double u_squared) noexcept {
    return w_squared > 0. && u_squared > 0. ? std::sqrt(w_squared) / std::sqrt(u_squared) : 1.;
  }
  /// All that does not depend on the tensor.
  [[nodiscard]] static fn::Lamb coefficients(const group& g, double grad_norm) {
    const Lamb& o = g.options;
    fn::Lamb f{};
    f.beta1 = static_cast<float>(o.beta1);
    f.beta3 = o.grad_averaging ? static_cast<float>(1. - o.beta1) : 1.f;
    f.beta2 = static_cast<float>(o.beta2);
    f.one_minus_beta2 = static_cast<float>(1. - o.beta2);
    f.eps = static_cast<float>(o.eps);
    f.decay = static_cast<float>(o.weight_decay);
    f.inv_bias1 = static_cast<float>(1. / detail::bias_correction_of(o.beta1, g.step, o.bias_correction));
    f.inv_bias2 = static_cast<float>(1. / detail::bias_correction_of(o.beta2, g.step, o.bias_correction));
    if (o.max_grad_norm > 0. && grad_norm > o.max_grad_norm) f.clip = static_cast<float>(o.max_grad_norm / grad_norm);
    f.decoupled = o.mode == decay::decoupled;
    return f;
  }
};

static_assert(TensorOptimizer<Lamb>);

}  // namespace amp
