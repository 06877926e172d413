/// Several linear layers: linear-GELU-linear, and a perceptron of any depth.
#pragma once
#include <amp/apply/exec.hpp>
#include <amp/nn/linear.hpp>
#include <amp/tensor/matrix.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace amp::nn {

/// Weights of a layer: w [out, in], b [out] or absent.
struct linear_layer {
  matrix_view w;
  tensor_view b = {};
};

/// y = f(x w1^T + b1) w2^T + b2. `hidden` receives f(...), `pre` what goes into f; both are wanted by the backward
/// pass.
/// shape   x [rows, in], hidden and pre [rows, inner], y [rows, out]
/// throws  amp::error for shapes that do not fit
template <exec::HostExecutor E, Activation F = gelu_erf, GemmBackend B = blocked>
void linear_gelu_linear(const E& executor, const matrix_view& y, const matrix_view& x, const linear_layer& first,
                        const linear_layer& second, const matrix_view& hidden, const matrix_view& pre = {}, F f = {},
                        const B& backend = {}, const gemm_options& options = {}, where at = where::here()) {
  linear(executor, hidden, x, first.w, first.b, f, pre, backend, options, at);
  linear(executor, y, hidden, second.w, second.b, no_activation{}, {}, backend, options, at);
}

/// Its gradients. `dpre` [rows, inner] is scratch and holds the gradient before the activation afterwards.
/// throws  amp::error for shapes that do not fit
template <exec::HostExecutor E, Activation F = gelu_erf, GemmBackend B = blocked>
void linear_gelu_linear_backward(const E& executor, const linear_gradients& first_grads,
                                 const linear_gradients& second_grads, const matrix_view& dpre, const matrix_view& dy,
                                 const matrix_view& x, const linear_layer& first, const linear_layer& second,
                                 const matrix_view& hidden, const matrix_view& pre, F f = {}, const B& backend = {},
                                 const gemm_options& options = {}, where at = where::here()) {
  slope_and_bias_gradient<slope_source::input>(executor, {}, second_grads.db, dy, {}, no_activation{}, at);
  linear_products(executor, {{}, second_grads.dw, {}, second_grads.accumulate}, dy, hidden, second.w, backend, options,
                  at);
  gemm(executor, dpre, plain(dy), plain(second.w), chain(times_slope<F>{pre, f}), backend, options, at);
  slope_and_bias_gradient<slope_source::input>(executor, {}, first_grads.db, dpre, {}, no_activation{}, at);
  linear_products(executor, first_grads, dpre, x, first.w, backend, options, at);
}

namespace detail {
/// Matrices of one format in storage of their own.
class MatrixBuffer {
 public:
  matrix_view get(std::int64_t rows, std::int64_t columns, dtype type) {
    bytes_.resize(static_cast<std::size_t>(rows * columns) * size_of(type) + 1);
    return {bytes_.data(), rows, columns, columns, type, false, {}};
  }

 private:
  std::vector<unsigned char> bytes_;
};
}  // namespace detail

/// A perceptron of any depth: y = f(w_n ... f(w_1 x + b_1) ... + b_n), with f after every layer, the last one too.
/// shape   hidden[k] [rows, layers[k].w.rows] for all layers but the last, y [rows, layers.back().w.rows]
///         without `hidden` nothing is kept, for a pass without gradients
/// throws  amp::error for no layers, another number of hidden matrices, shapes that do not fit
/// source  NVIDIA apex, MLP: activation after every layer
template <exec::HostExecutor E, Activation F = relu, GemmBackend B = blocked>
void mlp(const E& executor, const matrix_view& y, const matrix_view& x, std::span<const linear_layer> layers,
         std::span<const matrix_view> hidden = {}, F f = {}, const B& backend = {}, const gemm_options& options = {},
         where at = where::here()) {
  expects(!layers.empty(), "a perceptron without layers; give at least one", at);
  expects(
      hidden.empty() || hidden.size() + 1 == layers.size(),
      [&] {
        return "hidden has " + std::to_string(hidden.size()) + " matrices for " + std::to_string(layers.size()) +
               " layers; one for each layer but the last";
      },
      at);
  detail::MatrixBuffer buffers[2];
  matrix_view input = x;
  for (std::size_t k = 0; k < layers.size(); ++k) {
    const bool last = k + 1 == layers.size();
    const matrix_view output = last             ? y
                               : hidden.empty() ? buffers[k % 2].get(x.rows, layers[k].w.rows, y.type)
                                                : hidden[k];
    linear(executor, output, input, layers[k].w, layers[k].b, f, {}, backend, options, at);
    input = output;
  }
}

/// Gradients of mlp, from the outputs that it kept; grads[k].dx is used of the first layer only.
/// throws  amp::error unless there are gradients and kept matrices for the layers, and for shapes that do not fit
template <exec::HostExecutor E, InvertibleSlope F = relu, GemmBackend B = blocked>
void mlp_backward(const E& executor, std::span<const linear_gradients> grads, const matrix_view& dy,
                  const matrix_view& y, const matrix_view& x, std::span<const linear_layer> layers,
                  std::span<const matrix_view> hidden, F f = {}, const B& backend = {},
                  const gemm_options& options = {}, where at = where::here()) {
  expects(!layers.empty() && grads.size() == layers.size() && hidden.size() + 1 == layers.size(),
          "mlp_backward needs gradients for each layer and what mlp() kept for each layer but the last", at);
  detail::MatrixBuffer buffers[2];
  matrix_view above = dy;
  for (std::size_t k = layers.size(); k-- > 0;) {
    const matrix_view& output = k + 1 == layers.size() ? y : hidden[k];
    const matrix_view& input = k == 0 ? x : hidden[k - 1];
    const matrix_view dpre = k + 1 == layers.size() ? buffers[0].get(dy.rows, dy.columns, dy.type) : above;
    slope_and_bias_gradient<slope_source::output>(executor, dpre, grads[k].db, above, output, f, at);
    // The buffer that does not hold dpre: dpre of layer k lies in buffer (n - 1 - k) % 2.
    const matrix_view below =
        k == 0 ? grads[0].dx : buffers[(layers.size() - k) % 2].get(dy.rows, layers[k].w.columns, dy.type);
    linear_products(executor, {below, grads[k].dw, {}, grads[k].accumulate}, dpre, input, layers[k].w, backend, options,
                    at);
    above = below;
  }
}

}  // namespace amp::nn
