/// Clipping gradients by their norm, outside of a session.
#pragma once
#include <algorithm>
#include <amp/core/check.hpp>
#include <amp/fn/l2norm.hpp>
#include <amp/fn/scale.hpp>
#include <amp/half_traits.hpp>
#include <amp/multi_tensor_apply.hpp>
#include <amp/optim/executor.hpp>
#include <amp/tensor/param.hpp>
#include <cmath>
#include <limits>
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
/// p-norm of lists in any formats, in double.
inline double p_norm(tensor_list list, double p) {
  double sum = 0.;
  for (const tensor_view& t : list) {
    visit(t.type, [&]<class T>(std::type_identity<T>) {
      for (const T& element : std::span(static_cast<const T*>(t.data), static_cast<std::size_t>(t.size))) {
        const double x = std::fabs(static_cast<double>(static_cast<float>(element)));
        if (std::isinf(p)) {
          sum = x > sum || std::isnan(x) ? x : sum;
          if (std::isnan(x)) return;
        } else {
          sum += std::pow(x, p);
        }
      }
    });
    if (std::isnan(sum)) return sum;
  }
  return std::isinf(p) ? sum : std::pow(sum, 1. / p);
}
}  // namespace detail

/// Scales all gradients in place so that their total norm is at most `max_norm`, and returns the norm before. Formats
/// may be mixed; parameters without a gradient count nothing; no gradients: 0. A norm that is not finite gives a factor
/// of 0 or NaN, unless error_if_nonfinite, which throws and leaves the gradients as they are. throws  amp::error if
/// max_norm is negative or NaN, or norm_type is not positive
inline double clip_grad_norm(std::span<const Param> params, double max_norm, const norm_options& options = {},
                             const exec::any& executor = exec::vectorized{}, where at = where::here()) {
  expects(max_norm >= 0., "clip_grad_norm: max_norm must be 0 or positive", at);
  expects(options.norm_type > 0., "clip_grad_norm: norm_type must be positive; infinity gives the largest magnitude",
          at);
  std::vector<tensor_view> grads;
  for (const Param& p : params)
    if (p.has_grad()) grads.push_back(p.grad_view());
  const double norm = options.norm_type == 2. ? fn::l2norm(executor, tensor_list(grads)).total
                                              : detail::p_norm(grads, options.norm_type);
  expects(!options.error_if_nonfinite || std::isfinite(norm),
          "clip_grad_norm: the norm is not finite; the gradients were left unchanged", at);
  const double factor = clip_factor(norm, max_norm);
  if (factor != 1.) {
    multi_tensor_apply(executor, fn::Scale{static_cast<float>(factor)}, lane::out(grads), lane::in(grads));
  }
  return norm;
}

}  // namespace amp
