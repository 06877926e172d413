/// NovoGrad: the second moment is one norm per tensor.
#pragma once
#include <amp/apply/fold.hpp>
#include <amp/core/check.hpp>
#include <amp/fn/norms.hpp>
#include <amp/fn/novograd.hpp>
#include <amp/optim/concepts.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

namespace amp {

/// Keeps one norm per tensor (not its square), blended with the norm of each new gradient.
/// source  Ginsburg et al. 2019 (arXiv:1905.11286); defaults: apex FusedNovoGrad
struct NovoGrad {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.;
  bool bias_correction = true;
  bool grad_averaging = true;       ///< m takes (1 - beta1) * g; false: g
  bool reg_inside_moment = false;   ///< decay and division by the norm before the moment
  bool init_zero = false;           ///< the kept norm starts at 0; false: at the first norm
  norm_kind norm = norm_kind::two;  ///< 2-norm or largest magnitude

  static constexpr int states = 1;
  static constexpr const char* state_names[states] = {"exp_avg"};
  static constexpr bool whole_tensors = true;
  static constexpr int tensor_states = 1;
  static constexpr const char* tensor_state_names[tensor_states] = {"exp_avg_norm"};
  using group = TensorGroup<NovoGrad>;

  static constexpr void next_step(group& g) noexcept { ++g.step; }

  /// One pass over the gradients for their norms.
  /// throws  amp::error if other tensors have a gradient than at the group's first step
  template <class Step>
  [[nodiscard]] static fn::NovoGrad functor(group& g, const Step& step, where at = where::here()) {
    const NovoGrad& o = g.options;
    auto& kept = g.tensor_state[0];
    kept.resize(step.parameters, none_kept);
    expect_same_tensors(kept, step, at);
    const auto norms = fn::norms(step.executor, step.grads, o.norm);
    const double c2 = std::sqrt(detail::bias_correction_of(o.beta2, g.step, o.bias_correction));
    g.coefficients.resize(step.size());
    for (std::size_t t = 0; t < step.size(); ++t) {
      const double n = norms.per_tensor[t];
      float& own = kept[step.parameter[t]];
      if (own == none_kept) own = o.init_zero ? 0.f : static_cast<float>(n);
      own = static_cast<float>(fn::blended_norm(static_cast<double>(own), n, o.beta2, 1. - o.beta2, o.norm));
      g.coefficients[t] = static_cast<float>(static_cast<double>(own) / c2 + o.eps);
    }
    return {static_cast<float>(o.lr),
            static_cast<float>(o.beta1),
            o.grad_averaging ? static_cast<float>(1. - o.beta1) : 1.f,
            static_cast<float>(o.weight_decay),
            static_cast<float>(1. / detail::bias_correction_of(o.beta1, g.step, o.bias_correction)),
            o.reg_inside_moment,
            g.coefficients.data()};
  }

  /// throws  amp::error if an option is out of range
  constexpr void validate(where at) const {
    detail::check_options(*this, "NovoGrad", at);
    detail::option(detail::finite_above_zero(eps), "NovoGrad", "eps must be a normal fp32 number, at least 2^-126",
                   at);  // a gradient of 0 has norm 0
  }

 private:
  static constexpr float none_kept = -1.f;

  template <class Step>
  static void expect_same_tensors(const std::vector<float>& kept, const Step& step, where at) {
    std::size_t known = 0, missing = 0;
    for (const float n : kept) known += n != none_kept ? 1u : 0u;
    for (const std::size_t p : step.parameter) missing += kept[p] == none_kept ? 1u : 0u;
    expects(
        known == 0 || (missing == 0 && known == step.size()),
        [&] {
          return "NovoGrad keeps norms of " + std::to_string(known) + " tensors, and " + std::to_string(step.size()) +
                 " have a gradient now; the tensors with gradients must stay the same";
        },
        at);
  }
};

static_assert(TensorOptimizer<NovoGrad>);

}  // namespace amp
