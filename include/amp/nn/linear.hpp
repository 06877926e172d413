/// A linear layer with its activation in one pass, forward and backward.
#pragma once
#include <amp/apply/exec.hpp>
#include <amp/nn/activation.hpp>
#include <amp/nn/epilogue.hpp>
#include <amp/nn/gemm.hpp>
#include <amp/nn/rows.hpp>
#include <amp/tensor/matrix.hpp>
#include <amp/tensor/view.hpp>
#include <cstdint>
#include <vector>

namespace amp::nn {

/// y = f(x w^T + b); `pre`, where given, receives x w^T + b for the backward pass.
/// shape   x [rows, in], w [out, in], b [out] or absent, y and pre [rows, out]; any of the sizes may be 0
/// types   any formats, all free; fp32 products and sums, bias and activation in fp32, one rounding at the store
/// throws  amp::error for shapes that do not fit
template <exec::HostExecutor E, Activation F = no_activation, GemmBackend B = blocked>
void linear(const E& executor, const matrix_view& y, const matrix_view& x, const matrix_view& w,
            const tensor_view& b = {}, F f = {}, const matrix_view& pre = {}, const B& backend = {},
            const gemm_options& options = {}, where at = where::here()) {
  expects_vector(b, w.rows, "the bias", false, at);
  if (pre.data != nullptr) expects_matrix(pre, x.rows, w.rows, "pre", true, at);
  const Floats shift(b, w.rows, 0.f);
  gemm(executor, y, plain(x), transposed(w), chain(bias{shift.data()}, keep{pre}, activate<F>{f}), backend, options,
       at);
}

/// Where the gradients of a linear layer go; what is absent (no data) is not computed.
struct linear_gradients {
  matrix_view dx = {}, dw = {};
  tensor_view db = {};
  bool accumulate = false;  ///< dw += instead of dw =
};

/// One pass over dy: dpre = dy f'(...), rounded into its format, and partial sums of the rounded values for db.
template <Activation F, slope_source From>
struct slope_kernel {
  struct args {
    matrix_view dpre, dy, kept;
    F f;
    row_blocks blocks;
    float* partial;  ///< [block][columns], zeroed; null if not wanted
  };
  template <class V>
  AMP_INLINE static void run(const args& a, std::int64_t block) {
    alignas(64) float grad[segment];
    alignas(64) float buffer[segment];
    for (std::int64_t r = a.blocks.begin(block); r < a.blocks.end(block); ++r) {
      for_each_segment(a.dy.columns, [&](std::int64_t begin, std::int64_t n) AMP_LAMBDA {
        apply::decode<V>(a.dy.flat(), r * a.dy.stride + begin, n, grad);
        if (a.kept.data != nullptr) {
          const float* at = floats_of<V>(a.kept, r, begin, n, buffer);
          update_each<V>(grad, n, [&](const V& g, std::int64_t i, auto part) AMP_LAMBDA {
            return g * slope_at<From>(a.f, simd::load<V>(at + i, part));
          });
          apply::encode<V>(grad, n, a.dpre.flat(), r * a.dpre.stride + begin);
          // The products below read the rounded values; db sums the same ones.
          if (a.dpre.type != dtype::fp32) apply::decode<V>(a.dpre.flat(), r * a.dpre.stride + begin, n, grad);
        }
        if (a.partial == nullptr) return;
        float* sum = a.partial + block * a.dy.columns + begin;
        for_each_vector<V>(n, [&](std::int64_t i, auto part) AMP_LAMBDA {
          simd::store(sum + i, simd::load<V>(sum + i, part) + simd::load<V>(grad + i, part), part);
        });
      });
    }
  }
};

/// The first half of a backward pass: dpre = dy f'(kept) and db = its sums over rows, in one pass. `kept` absent: no
/// activation, dpre is not written and db sums dy. dpre may be dy.
/// throws  amp::error for shapes that do not fit
template <slope_source From, exec::HostExecutor E, Activation F>
void slope_and_bias_gradient(const E& executor, const matrix_view& dpre, const tensor_view& db, const matrix_view& dy,
                             const matrix_view& kept, F f, where at = where::here()) {
  expects_matrix(dy, dy.rows, dy.columns, "dy", false, at);
  if (kept.data != nullptr) {
    expects_matrix(kept, dy.rows, dy.columns, "what the forward pass kept", false, at);
    expects_matrix(dpre, dy.rows, dy.columns, "dpre", true, at);
  }
  expects_vector(db, dy.columns, "db", true, at);
  if (kept.data == nullptr && db.data == nullptr) return;
  const auto blocks = summed_blocks(dy.rows);
  std::vector<float> partial(db.data == nullptr ? 0 : static_cast<std::size_t>(blocks.count() * dy.columns));
  using kernel = slope_kernel<F, From>;
  run_items<kernel>(executor, blocks.count(), dy.rows * dy.columns,
                    typename kernel::args{dpre, dy, kept, f, blocks, db.data == nullptr ? nullptr : partial.data()});
  if (db.data == nullptr) return;
  run_items<column_sums>(executor, 1, blocks.count() * dy.columns,
                         column_sums::args{partial.data(), blocks.count(), 1, dy.columns, {db, {}}});
}

/// The second half: dx = dpre w, dw = dpre^T x.
/// throws  amp::error for shapes that do not fit
template <exec::HostExecutor E, GemmBackend B = blocked>
void linear_products(const E& executor, const linear_gradients& grads, const matrix_view& dpre, const matrix_view& x,
                     const matrix_view& w, const B& backend = {}, const gemm_options& options = {},
                     where at = where::here()) {
  if (grads.dx.data != nullptr) gemm(executor, grads.dx, plain(dpre), plain(w), epilogue<>{}, backend, options, at);
  if (grads.dw.data == nullptr) return;
  const residual before{grads.accumulate ? grads.dw : matrix_view{}};
  gemm(executor, grads.dw, transposed(dpre), plain(x), chain(before), backend, options, at);
}

/// Gradients of linear without an activation; db comes from the same dy in fixed order.
/// throws  amp::error for shapes that do not fit
template <exec::HostExecutor E, GemmBackend B = blocked>
void linear_backward(const E& executor, const linear_gradients& grads, const matrix_view& dy, const matrix_view& x,
                     const matrix_view& w, const B& backend = {}, const gemm_options& options = {},
                     where at = where::here()) {
  slope_and_bias_gradient<slope_source::input>(executor, {}, grads.db, dy, {}, no_activation{}, at);
  linear_products(executor, grads, dy, x, w, backend, options, at);
}

/// Gradients of linear with an activation, from the kept pre-activation. `dpre` receives the gradient before the
/// activation; it may be dy's own storage.
/// throws  amp::error for shapes that do not fit and for a missing pre-activation
template <exec::HostExecutor E, Activation F, GemmBackend B = blocked>
void linear_backward(const E& executor, const linear_gradients& grads, const matrix_view& dpre, const matrix_view& dy,
                     const matrix_view& pre, const matrix_view& x, const matrix_view& w, F f, const B& backend = {},
                     const gemm_options& options = {}, where at = where::here()) {
  expects(pre.data != nullptr || dy.rows * dy.columns == 0,
          "the backward pass of an activation needs the pre-activation that linear() keeps", at);
  slope_and_bias_gradient<slope_source::input>(executor, dpre, grads.db, dy, pre, f, at);
  linear_products(executor, grads, dpre, x, w, backend, options, at);
}

}  // namespace amp::nn
