/// Clipping gradients by norm or by value, outside of a session.
#pragma once
#include <amp/apply/exec.hpp>
#include <amp/core/check.hpp>
#include <amp/core/config.hpp>
#include <amp/fn/l2norm.hpp>
#include <amp/fn/norms.hpp>
#include <amp/fn/scale.hpp>
#include <amp/multi_tensor_apply.hpp>
#include <amp/simd/math.hpp>
#include <amp/tensor/param.hpp>
#include <cmath>
#include <span>
#include <string>
#include <vector>

namespace amp {

/// The factor that brings a norm down to `max_norm`: min(1, max_norm / (norm + 1e-6)); NaN for a NaN norm.
/// source  torch.nn.utils.clip_grad_norm_
[[nodiscard]] inline double clip_factor(double norm, double max_norm) noexcept {
  const double factor = max_norm / (norm + 1e-6);
  return factor > 1. ? 1. : factor;
}

/// Options of clip_grad_norm over parameters.
struct norm_options {
  double norm_type = 2.;  ///< p; infinity: the largest magnitude
  bool error_if_nonfinite = false;
};

namespace detail {
inline std::vector<tensor_view> grads_of(std::span<const Param> params) {
  std::vector<tensor_view> grads;
  for (const Param& p : params)
    if (p.has_grad()) grads.push_back(p.grad_view());
  return grads;
}
/// The 2-norm is the fused one; it and maxnorm see every element, so an infinite or NaN one is never lost.
template <exec::HostExecutor E>
double grad_norm(const E& executor, tensor_list grads, double p, where at) {
  expects(p > 0., "clip_grad_norm: norm_type must be positive; infinity gives the largest magnitude", at);
  return p == 2. ? fn::l2norm(executor, grads, at).total : fn::pnorm(executor, grads, p, at).total;
}

/// x between -limit and limit; NaN stays.
struct Clamp {
  float limit;

  template <class V>
  AMP_HD AMP_INLINE void operator()(V& x) const {
    using simd::max;
    using simd::min;
    x = min(max(x, V(-limit)), V(limit));
  }
};
}  // namespace detail

/// Total p-norm of the gradients that there are, in any formats; 0 if there are none.
/// throws  amp::error if norm_type is not positive
template <exec::HostExecutor E = exec::vectorized>
[[nodiscard]] double grad_norm(std::span<const Param> params, double norm_type = 2., const E& executor = {},
                               where at = where::here()) {
  return detail::grad_norm(executor, detail::grads_of(params), norm_type, at);
}

/// Scales all gradients in place so that their total norm is at most `max_norm`, and returns the norm before. Formats
/// may be mixed; parameters without a gradient count nothing; no gradients: 0. A norm that is not finite gives a factor
/// of 0 or NaN, unless error_if_nonfinite, which throws and leaves the gradients as they are. For a norm per group,
/// call it per group.
/// throws  amp::error if max_norm is negative or NaN, or norm_type is not positive
template <exec::HostExecutor E = exec::vectorized>
double clip_grad_norm(std::span<const Param> params, double max_norm, const norm_options& options = {},
                      const E& executor = {}, where at = where::here()) {
  expects(max_norm >= 0., "clip_grad_norm: max_norm must be 0 or positive", at);
  const std::vector<tensor_view> grads = detail::grads_of(params);
  const double norm = detail::grad_norm(executor, grads, options.norm_type, at);
  expects(!options.error_if_nonfinite || std::isfinite(norm),
          "clip_grad_norm: the norm is not finite; the gradients were left unchanged", at);
  const double factor = clip_factor(norm, max_norm);
  if (factor != 1.) {
    multi_tensor_apply(executor, fn::Scale{static_cast<float>(factor)}, lane::out(grads), lane::in(grads));
  }
  return norm;
}

/// Clips each group by its own norm; returns the norms before, in order.
/// throws  as clip_grad_norm
template <exec::HostExecutor E = exec::vectorized>
[[nodiscard]] std::vector<double> clip_grad_norm_per_group(std::span<const std::vector<Param>> groups, double max_norm,
                                                           const norm_options& options = {}, const E& executor = {},
                                                           where at = where::here()) {
  std::vector<double> norms;
  for (const auto& group : groups) norms.push_back(clip_grad_norm(group, max_norm, options, executor, at));
  return norms;
}

/// Brings each element of each gradient into [-limit, limit]; infinities too, a NaN stays.
/// throws  amp::error if limit is negative or NaN
/// source  torch.nn.utils.clip_grad_value_
template <exec::HostExecutor E = exec::vectorized>
void clip_grad_value(std::span<const Param> params, double limit, const E& executor = {}, where at = where::here()) {
  expects(limit >= 0., "clip_grad_value: the limit must be 0 or positive", at);
  const std::vector<tensor_view> grads = detail::grads_of(params);
  multi_tensor_apply(executor, detail::Clamp{static_cast<float>(limit)}, lane::inout(grads));
}

}  // namespace amp
