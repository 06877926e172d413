/// LayerNorm over the rows of a matrix, forward and backward, with input, weights and output in any formats.
#pragma once
#include <amp/apply/exec.hpp>
#include <amp/nn/norm_kernels.hpp>
#include <amp/tensor/matrix.hpp>
#include <amp/tensor/view.hpp>

namespace amp::nn {

/// y = (x - mean) / sqrt(variance + eps) * gamma + beta, mean and biased variance of each row.
/// shape   x, y [rows, columns]; gamma, beta [columns] or absent; saved [rows]
/// types   any formats, all free; statistics in fp32 about the mean (two passes), one rounding at the store
/// throws  amp::error for shapes that do not fit, rows without elements, a negative eps
/// source  Ba, Kiros & Hinton 2016 (arXiv:1607.06450), eq. 3-4
template <exec::HostExecutor E>
void layer_norm(const E& executor, const matrix_view& y, const matrix_view& x, const tensor_view& gamma = {},
                const tensor_view& beta = {}, float eps = 1e-5f, norm_saved saved = {}, where at = where::here()) {
  run_norm_forward<true>(executor, y, x, gamma, beta, eps, saved, at);
}

/// Gradients of layer_norm from its input and the saved mean and rstd. dx may be dy's own storage.
/// Sums over rows are taken in fixed blocks: equal bits for every thread count.
/// throws  amp::error for shapes that do not fit and for statistics that were not saved
template <exec::HostExecutor E>
void layer_norm_backward(const E& executor, const norm_gradients& grads, const matrix_view& dy, const matrix_view& x,
                         const tensor_view& gamma, norm_saved saved, where at = where::here()) {
  run_norm_backward<true, false>(executor, grads, dy, x, gamma, {}, 0.f, saved, at);
}

/// The same from the output instead of the input, so that x need not be kept: xhat = (y - beta) / gamma, with gamma's
/// magnitude raised to `clamp` where it is below. Needs rstd, no mean.
/// throws  amp::error for shapes that do not fit and for an rstd that was not saved
/// source  NVIDIA apex, FusedLayerNorm's memory_efficient form
template <exec::HostExecutor E>
void layer_norm_backward_from_output(const E& executor, const norm_gradients& grads, const matrix_view& dy,
                                     const matrix_view& y, const tensor_view& gamma, const tensor_view& beta,
                                     norm_saved saved, float clamp = 1e-5f, where at = where::here()) {
  run_norm_backward<true, true>(executor, grads, dy, y, gamma, beta, clamp, saved, at);
}

}  // namespace amp::nn
