/// RMSNorm over the rows of a matrix, forward and backward: LayerNorm without a mean and without a shift.
#pragma once
#include <amp/apply/exec.hpp>
#include <amp/nn/norm_kernels.hpp>
#include <amp/tensor/matrix.hpp>
#include <amp/tensor/view.hpp>

namespace amp::nn {

/// y = x * gamma / sqrt(mean(x^2) + eps)
/// shape   x, y [rows, columns]; gamma [columns] or absent; saved.rstd [rows]
/// types   any formats, all free; the mean of squares in fp32, one rounding at the store
/// throws  amp::error for shapes that do not fit, rows without elements, a negative eps
/// source  Zhang & Sennrich 2019 (arXiv:1910.07467), eq. 4
template <exec::HostExecutor E>
void rms_norm(const E& executor, const matrix_view& y, const matrix_view& x, const tensor_view& gamma = {},
              float eps = 1e-5f, norm_saved saved = {}, where at = where::here()) {
  run_norm_forward<false>(executor, y, x, gamma, {}, eps, {nullptr, saved.rstd}, at);
}

/// Gradients of rms_norm from its input and the saved rstd; grads.dbeta is not asked for.
/// throws  amp::error for shapes that do not fit and for statistics that were not saved
template <exec::HostExecutor E>
void rms_norm_backward(const E& executor, const norm_gradients& grads, const matrix_view& dy, const matrix_view& x,
                       const tensor_view& gamma, norm_saved saved, where at = where::here()) {
  run_norm_backward<false, false>(executor, {grads.dx, grads.dgamma, {}}, dy, x, gamma, {}, 0.f, saved, at);
}

/// The same from the output: xhat = y / gamma, with gamma's magnitude raised to `clamp` where it is below.
/// throws  amp::error for shapes that do not fit and for an rstd that was not saved
template <exec::HostExecutor E>
void rms_norm_backward_from_output(const E& executor, const norm_gradients& grads, const matrix_view& dy,
                                   const matrix_view& y, const tensor_view& gamma, norm_saved saved,
                                   float clamp = 1e-5f, where at = where::here()) {
  run_norm_backward<false, true>(executor, {grads.dx, grads.dgamma, {}}, dy, y, gamma, {}, clamp, saved, at);
}

}  // namespace amp::nn
