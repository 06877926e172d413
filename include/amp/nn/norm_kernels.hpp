/// The row kernels behind layer_norm and rms_norm.
#pragma once
#include <algorithm>
#include <amp/core/config.hpp>
#include <amp/nn/rows.hpp>
#include <amp/simd/load.hpp>
#include <amp/simd/math.hpp>
#include <amp/tensor/matrix.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace amp::nn {

/// What a forward pass leaves for its backward pass, one float a row; either may be null if it is not wanted.
struct norm_saved {
  float* mean = nullptr;  ///< layer_norm only; the memory-efficient backward pass does without
  float* rstd = nullptr;  ///< 1 / sqrt(variance + eps)
};

/// Where gradients go; any of them may be absent (no data), and is then not computed.
struct norm_gradients {
  matrix_view dx = {};
  tensor_view dgamma = {}, dbeta = {};
};

/// A row's distance from its mean, in two parts: `mean` is what is saved, `rest` what fp32 could not hold of it. With
/// both, a row that lies far from 0 keeps its digits.
struct center {
  float mean, rest;

  template <class V>
  AMP_INLINE V operator()(const V& x) const {
    return (x - V(mean)) - V(rest);
  }
};

/// The mean, on differences from the row's first element: exact for a constant row.
template <class V>
AMP_INLINE float mean_of(RowReader<V>& x, std::int64_t columns, double inverse_count) {
  const float first = *x.at(0, std::min(segment, columns));
  double sum[1] = {};
  for_each_segment(columns, [&](std::int64_t begin, std::int64_t n) AMP_LAMBDA {
    const float* from = x.at(begin, n);
    lane_sums<V>(
        n, [&](std::int64_t i, auto part, V(&out)[1]) AMP_LAMBDA { out[0] = simd::load<V>(from + i, part) - V(first); },
        sum);
  });
  return static_cast<float>(static_cast<double>(first) + sum[0] * inverse_count);
}

/// y = (x - mean) / sqrt(variance + eps) * gamma + beta by rows; without `Centered` no mean, and x^2 for the variance.
template <bool Centered>
struct norm_forward {
  struct args {
    matrix_view y, x;
    const float *gamma, *beta;
    float eps;
    norm_saved saved;
    row_blocks blocks;
  };
  template <class V>
  AMP_INLINE static void run(const args& a, std::int64_t block) {
    RowReader<V> x(a.x);
    RowWriter<V> y(a.y);
    const std::int64_t columns = a.x.columns;
    const double inverse_count = 1.0 / static_cast<double>(columns);
    for (std::int64_t r = a.blocks.begin(block); r < a.blocks.end(block); ++r) {
      x.row(r);
      y.row(r);
      center around{0.f, 0.f};
      if constexpr (Centered) around.mean = mean_of<V>(x, columns, inverse_count);
      double sum[2] = {};
      sums_about<V>(x, columns, around.mean, sum);
      double variance = sum[1] * inverse_count;
      if constexpr (Centered) {
        const double rest = sum[0] * inverse_count;
        around.rest = static_cast<float>(rest);
        variance -= rest * rest;  // tiny: no cancellation
        variance = variance < 0 ? 0 : variance;
      }
      const auto rstd = static_cast<float>(1.0 / __builtin_sqrt(variance + static_cast<double>(a.eps)));
      if (a.saved.mean != nullptr) a.saved.mean[r] = around.mean;
      if (a.saved.rstd != nullptr) a.saved.rstd[r] = rstd;
      for_each_segment(columns, [&](std::int64_t begin, std::int64_t n) AMP_LAMBDA {
        const float* from = x.at(begin, n);
        float* to = y.at(begin);
        const float *gamma = a.gamma + begin, *beta = a.beta + begin;
        for_each_vector<V>(n, [&](std::int64_t i, auto part) AMP_LAMBDA {
          const V xhat = around(simd::load<V>(from + i, part)) * V(rstd);
          V out = xhat * simd::load<V>(gamma + i, part);
          if constexpr (Centered) out = out + simd::load<V>(beta + i, part);
          simd::store(to + i, out, part);
        });
        y.commit(begin, n);
      });
    }
  }
};

/// Gradients by rows, and partial sums of dgamma and dbeta by blocks of rows.
/// dx = rstd (dxhat - mean(dxhat) - xhat mean(dxhat xhat)) with dxhat = dy gamma
template <bool Centered, bool FromOutput>
struct norm_backward {
  struct args {
    matrix_view dx, dy;
    matrix_view source;         ///< x, or y in the memory-efficient form
    const float *gamma, *beta;  ///< of y: gamma clamped away from 0
    const float* scale;         ///< gamma as it is
    norm_saved saved;
    row_blocks blocks;
    float* partial;  ///< [block][2][columns], zeroed; null if neither sum is wanted
  };
  template <class V>
  AMP_INLINE static void run(const args& a, std::int64_t block) {
    RowReader<V> source(a.source), dy(a.dy);
    RowWriter<V> dx(a.dx);
    const std::int64_t columns = a.source.columns;
    float* const dgamma = a.partial == nullptr ? nullptr : a.partial + block * 2 * columns;
    for (std::int64_t r = a.blocks.begin(block); r < a.blocks.end(block); ++r) {
      source.row(r);
      dy.row(r);
      dx.row(r);
      const row_numbers row = numbers_of<V>(a, source, dy, r);
      for_each_segment(columns, [&](std::int64_t begin, std::int64_t n) AMP_LAMBDA {
        const float *from = source.at(begin, n), *grad = dy.at(begin, n);
        float* const to = a.dx.data == nullptr ? nullptr : dx.at(begin);
        put_gradients<V>(a, row, from, grad, begin, n, to, dgamma);
        if (to != nullptr) dx.commit(begin, n);
      });
    }
  }

 private:
  struct row_numbers {
    float mean, rest;  ///< as in `center`
    float rstd, mean_dxhat, mean_product;
  };
  /// The distance from the saved mean, or xhat itself where it comes from y.
  template <class V, class P>
  AMP_INLINE static V distance(const args& a, float mean, const float* from, std::int64_t begin, std::int64_t i,
                               P part) {
    const V value = simd::load<V>(from + i, part);
    if constexpr (FromOutput) {
      return (value - simd::load<V>(a.beta + begin + i, part)) / simd::load<V>(a.gamma + begin + i, part);
    } else {
      return value - V(mean);
    }
  }
  template <class V>
  AMP_INLINE static row_numbers numbers_of(const args& a, RowReader<V>& source, RowReader<V>& dy, std::int64_t r) {
    const std::int64_t columns = a.source.columns;
    const double inverse_count = 1.0 / static_cast<double>(columns);
    row_numbers row{};
    row.rstd = a.saved.rstd[r];
    if constexpr (Centered && !FromOutput) row.mean = a.saved.mean[r];
    double sum[3] = {};  // of dxhat, of dxhat times the distance, of the distance
    for_each_segment(columns, [&](std::int64_t begin, std::int64_t n) AMP_LAMBDA {
      const float *from = source.at(begin, n), *grad = dy.at(begin, n);
      lane_sums<V>(
          n,
          [&](std::int64_t i, auto part, V(&out)[3]) AMP_LAMBDA {
            const V dxhat = simd::load<V>(grad + i, part) * simd::load<V>(a.scale + begin + i, part);
            const V d = distance<V>(a, row.mean, from, begin, i, part);
            out[0] = dxhat;
            out[1] = dxhat * d;
            out[2] = d;
          },
          sum);
    });
    // What the saved mean could not hold of the mean is found again here.
    const double rest = Centered && !FromOutput ? sum[2] * inverse_count : 0.0;
    const double to_xhat = FromOutput ? 1.0 : static_cast<double>(row.rstd);
    row.rest = static_cast<float>(rest);
    row.mean_dxhat = static_cast<float>(sum[0] * inverse_count);
    row.mean_product = static_cast<float>((sum[1] - rest * sum[0]) * inverse_count * to_xhat);
    return row;
  }
  /// A segment of a row: dx to `to`, terms of dgamma and dbeta added to the block's sums; either may be null.
  template <class V>
  AMP_INLINE static void put_gradients(const args& a, const row_numbers& row, const float* from, const float* grad,
                                       std::int64_t begin, std::int64_t n, float* to, float* dgamma) {
    for_each_vector<V>(n, [&](std::int64_t i, auto part) AMP_LAMBDA {
      const V g = simd::load<V>(grad + i, part);
      V xhat = distance<V>(a, row.mean, from, begin, i, part);
      if constexpr (!FromOutput) xhat = (xhat - V(row.rest)) * V(row.rstd);
      if (dgamma != nullptr) {
        float *first = dgamma + begin + i, *second = first + a.source.columns;
        simd::store(first, simd::load<V>(first, part) + g * xhat, part);
        simd::store(second, simd::load<V>(second, part) + g, part);
      }
      if (to == nullptr) return;
      V inner = g * simd::load<V>(a.scale + begin + i, part);
      if constexpr (Centered) inner = inner - V(row.mean_dxhat);
      simd::store(to + i, V(row.rstd) * (inner - xhat * V(row.mean_product)), part);
    });
  }
};

template <bool Centered, exec::HostExecutor E>
void run_norm_forward(const E& executor, const matrix_view& y, const matrix_view& x, const tensor_view& gamma,
                      const tensor_view& beta, float eps, norm_saved saved, where at) {
  expects_matrix(x, x.rows, x.columns, "x", false, at);
  expects_matrix(y, x.rows, x.columns, "y", true, at);
  expects_vector(gamma, x.columns, "gamma", false, at);
  expects_vector(beta, x.columns, "beta", false, at);
  expects_eps(eps, at);
  expects(x.columns > 0 || x.rows == 0, "rows without elements have no mean; give at least one column", at);
  if (x.rows == 0) return;
  const Floats scale(gamma, x.columns, 1.f), shift(beta, x.columns, 0.f);
  const auto blocks = independent_blocks(x.rows, x.columns);
  run_items<norm_forward<Centered>>(
      executor, blocks.count(), x.rows * x.columns,
      typename norm_forward<Centered>::args{y, x, scale.data(), shift.data(), eps, saved, blocks});
}

template <bool Centered, bool FromOutput, exec::HostExecutor E>
void run_norm_backward(const E& executor, const norm_gradients& grads, const matrix_view& dy, const matrix_view& source,
                       const tensor_view& gamma, const tensor_view& beta, float clamp, norm_saved saved, where at) {
  const std::int64_t rows = source.rows, columns = source.columns;
  expects_matrix(source, rows, columns, FromOutput ? "y" : "x", false, at);
  expects_matrix(dy, rows, columns, "dy", false, at);
  if (grads.dx.data != nullptr) expects_matrix(grads.dx, rows, columns, "dx", true, at);
  expects_vector(gamma, columns, "gamma", false, at);
  expects_vector(beta, columns, "beta", false, at);
  expects_vector(grads.dgamma, columns, "dgamma", true, at);
  expects_vector(grads.dbeta, columns, "dbeta", true, at);
  expects(rows == 0 || saved.rstd != nullptr, "the backward pass needs rstd, which the forward pass saves", at);
  expects(rows == 0 || !Centered || FromOutput || saved.mean != nullptr,
          "the backward pass needs mean, which the forward pass saves", at);
  const Floats scale(gamma, columns, 1.f), shift(beta, columns, 0.f);
  std::vector<float> clamped;
  if (FromOutput) {
    clamped.assign(scale.data(), scale.data() + columns);
    for (float& g : clamped) {
      if (!(__builtin_fabsf(g) >= clamp)) g = g < 0.f ? -clamp : clamp;  // 0 counts as positive
    }
  }
  const auto blocks = summed_blocks(rows);
  const bool sums = grads.dgamma.data != nullptr || grads.dbeta.data != nullptr;
  std::vector<float> partial(sums ? static_cast<std::size_t>(blocks.count() * 2 * columns) : 0);
  using backward = norm_backward<Centered, FromOutput>;
  const typename backward::args args{grads.dx,
                                     dy,
                                     source,
                                     FromOutput ? clamped.data() : scale.data(),
                                     shift.data(),
                                     scale.data(),
                                     saved,
                                     blocks,
                                     sums ? partial.data() : nullptr};
  run_items<backward>(executor, blocks.count(), rows * columns, args);
  if (!sums) return;
  run_items<column_sums>(executor, 2, 2 * blocks.count() * columns,
                         column_sums::args{partial.data(), blocks.count(), 2, columns, {grads.dgamma, grads.dbeta}});
}

}  // namespace amp::nn
