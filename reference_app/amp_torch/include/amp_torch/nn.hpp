/// Layers for LibTorch modules: LayerNorm on the toolkit's kernels, and a linear layer whose activation gradient and
/// bias gradient are one pass. Differentiable once, on the CPU; anything else takes LibTorch's own operators.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>

namespace amp_torch {

struct layer_norm_options {
  double eps = 1e-5;
  bool mixed = false;             ///< output in the type of gamma: low input with fp32 weights gives fp32
  bool memory_efficient = false;  ///< keep the output instead of the input for the backward pass
};
/// LayerNorm over the last dimensions, `shape`; gamma and beta may be undefined. Input and weights in any of fp32, fp16
/// and bf16, in any mix; each gradient in its tensor's own type.
/// throws  amp::error if the last dimensions of x are not `shape`
[[nodiscard]] at::Tensor layer_norm(const at::Tensor& x, at::IntArrayRef shape, const at::Tensor& gamma = {},
                                    const at::Tensor& beta = {}, const layer_norm_options& options = {});

/// What follows a linear layer. Both GELUs exist because models differ; BERT's is the exact one.
enum class activation : std::uint8_t { none, relu, sigmoid, gelu_erf, gelu_tanh };

/// f(x w^T + b); b may be undefined. The products are LibTorch's; the activation, its gradient and the bias gradient
/// are the toolkit's, with one pass over the gradient for both of the latter.
[[nodiscard]] at::Tensor linear(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b = {},
                                activation f = activation::none);

}  // namespace amp_torch
