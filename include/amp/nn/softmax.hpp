/// Softmax and its logarithm over the rows of a matrix, forward and backward.
#pragma once
#include <algorithm>
#include <amp/apply/exec.hpp>
#include <amp/core/config.hpp>
#include <amp/nn/rows.hpp>
#include <amp/simd/load.hpp>
#include <amp/simd/math.hpp>
#include <amp/tensor/matrix.hpp>
#include <cstdint>

namespace amp::nn {

/// The largest element of a row; -infinity for none. NaNs are passed over here and come back with the sums.
template <class V>
AMP_INLINE float row_max(RowReader<V>& x, std::int64_t columns) {
  V largest(-__builtin_inff());
  for_each_segment(columns, [&](std::int64_t begin, std::int64_t n) AMP_LAMBDA {
    const float* from = x.at(begin, n);
    constexpr int width = simd::lanes<V>;
    std::int64_t i = 0;
    for (; i + width <= n; i += width) largest = simd::max(largest, simd::load<V>(from + i));
    for (; i < n; ++i) largest = simd::max(largest, V(from[i]));
  });
  alignas(64) float lane[simd::lanes<V>];
  simd::store(lane, largest);
  float top = lane[0];
  for (int k = 1; k < simd::lanes<V>; ++k) top = lane[k] > top ? lane[k] : top;
  return top;
}

/// The sum of e^(x - top) over a row.
template <class V>
AMP_INLINE double exp_sum(RowReader<V>& x, std::int64_t columns, float top) {
  double sum[1] = {};
  for_each_segment(columns, [&](std::int64_t begin, std::int64_t n) AMP_LAMBDA {
    const float* from = x.at(begin, n);
    lane_sums<V>(
        n,
        [&](std::int64_t i, auto part, V(&out)[1])
            AMP_LAMBDA { out[0] = simd::exp(simd::load<V>(from + i, part) - V(top)); },
        sum);
  });
  return sum[0];
}

template <bool Log>
struct softmax_kernel {
  struct args {
    matrix_view y, x;
    row_blocks blocks;
  };
  template <class V>
  AMP_INLINE static void run(const args& a, std::int64_t block) {
    RowReader<V> x(a.x);
    RowWriter<V> y(a.y);
    const std::int64_t columns = a.x.columns;
    for (std::int64_t r = a.blocks.begin(block); r < a.blocks.end(block); ++r) {
      x.row(r);
      y.row(r);
      const float top = row_max<V>(x, columns);
      const auto sum = static_cast<float>(exp_sum<V>(x, columns, top));
      const float shift = Log ? simd::log(sum) : 1.f / sum;
      for_each_segment(columns, [&](std::int64_t begin, std::int64_t n) AMP_LAMBDA {
        const float* from = x.at(begin, n);
        float* to = y.at(begin);
        for_each_vector<V>(n, [&](std::int64_t i, auto part) AMP_LAMBDA {
          const V d = simd::load<V>(from + i, part) - V(top);
          if constexpr (Log) {
            simd::store(to + i, d - V(shift), part);
          } else {
            simd::store(to + i, simd::exp(d) * V(shift), part);
          }
        });
        y.commit(begin, n);
      });
    }
  }
};

/// dx = y (dy - sum(dy y)) of softmax, dx = dy - e^y sum(dy) of its logarithm.
template <bool Log>
struct softmax_backward_kernel {
  struct args {
    matrix_view dx, dy, y;
    row_blocks blocks;
  };
  template <class V>
  AMP_INLINE static void run(const args& a, std::int64_t block) {
    RowReader<V> y(a.y), dy(a.dy);
    RowWriter<V> dx(a.dx);
    const std::int64_t columns = a.y.columns;
    for (std::int64_t r = a.blocks.begin(block); r < a.blocks.end(block); ++r) {
      y.row(r);
      dy.row(r);
      dx.row(r);
      double sum[1] = {};
      for_each_segment(columns, [&](std::int64_t begin, std::int64_t n) AMP_LAMBDA {
        const float *out_row = y.at(begin, n), *grad = dy.at(begin, n);
        lane_sums<V>(
            n,
            [&](std::int64_t i, auto part, V(&out)[1]) AMP_LAMBDA {
              out[0] = simd::load<V>(grad + i, part);
              if constexpr (!Log) out[0] = out[0] * simd::load<V>(out_row + i, part);
            },
            sum);
      });
      const auto total = static_cast<float>(sum[0]);
      for_each_segment(columns, [&](std::int64_t begin, std::int64_t n) AMP_LAMBDA {
        const float *out_row = y.at(begin, n), *grad = dy.at(begin, n);
        float* to = dx.at(begin);
        for_each_vector<V>(n, [&](std::int64_t i, auto part) AMP_LAMBDA {
          const V g = simd::load<V>(grad + i, part), out = simd::load<V>(out_row + i, part);
          if constexpr (Log) {
            simd::store(to + i, g - simd::exp(out) * V(total), part);
          } else {
            simd::store(to + i, out * (g - V(total)), part);
          }
        });
        dx.commit(begin, n);
      });
    }
  }
};

template <bool Log, exec::HostExecutor E>
void run_softmax(const E& executor, const matrix_view& y, const matrix_view& x, where at) {
  expects_matrix(x, x.rows, x.columns, "x", false, at);
  expects_matrix(y, x.rows, x.columns, "y", true, at);
  if (x.columns == 0) return;
  const auto blocks = independent_blocks(x.rows, x.columns);
  run_items<softmax_kernel<Log>>(executor, blocks.count(), x.rows * x.columns,
                                 typename softmax_kernel<Log>::args{y, x, blocks});
}
template <bool Log, exec::HostExecutor E>
void run_softmax_backward(const E& executor, const matrix_view& dx, const matrix_view& dy, const matrix_view& y,
                          where at) {
  expects_matrix(y, y.rows, y.columns, "y", false, at);
  expects_matrix(dy, y.rows, y.columns, "dy", false, at);
  expects_matrix(dx, y.rows, y.columns, "dx", true, at);
  if (y.columns == 0) return;
  const auto blocks = independent_blocks(y.rows, y.columns);
  run_items<softmax_backward_kernel<Log>>(executor, blocks.count(), y.rows * y.columns,
                                          typename softmax_backward_kernel<Log>::args{dx, dy, y, blocks});
}

/// y = e^(x - max) / sum of the same, by rows. y may be x.
/// A row with a NaN or +infinity becomes NaN, no other row.
/// types   any formats; fp32 inside, one rounding at the store
/// throws  amp::error for shapes that do not fit
template <exec::HostExecutor E>
void softmax(const E& executor, const matrix_view& y, const matrix_view& x, where at = where::here()) {
  run_softmax<false>(executor, y, x, at);
}
/// y = x - max - log(sum of e^(x - max)), by rows. y may be x.
/// throws  amp::error for shapes that do not fit
template <exec::HostExecutor E>
void log_softmax(const E& executor, const matrix_view& y, const matrix_view& x, where at = where::here()) {
  run_softmax<true>(executor, y, x, at);
}

/// Gradient of softmax from its output. dx may be dy.
/// throws  amp::error for shapes that do not fit
template <exec::HostExecutor E>
void softmax_backward(const E& executor, const matrix_view& dx, const matrix_view& dy, const matrix_view& y,
                      where at = where::here()) {
  run_softmax_backward<false>(executor, dx, dy, y, at);
}
/// Gradient of log_softmax from its output. dx may be dy.
/// throws  amp::error for shapes that do not fit
template <exec::HostExecutor E>
void log_softmax_backward(const E& executor, const matrix_view& dx, const matrix_view& dy, const matrix_view& y,
                          where at = where::here()) {
  run_softmax_backward<true>(executor, dx, dy, y, at);
}

}  // namespace amp::nn
