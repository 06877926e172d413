/// The kernels behind batch_norm: sums by channel and the elementwise pass, for both layouts of a batch.
#pragma once
#include <algorithm>
#include <amp/core/config.hpp>
#include <amp/nn/activation.hpp>
#include <amp/nn/rows.hpp>
#include <amp/simd/load.hpp>
#include <amp/simd/math.hpp>
#include <amp/tensor/matrix.hpp>
#include <cstdint>

namespace amp::nn {

/// A batch of samples with channels. Channels first: [batch][channel][inner], as a matrix of batch * channels rows;
/// channels last: [batch * inner][channel].
struct channel_view {
  matrix_view lines;
  std::int64_t channels;
  bool channels_last;

  [[nodiscard]] std::int64_t per_channel() const noexcept {
    if (channels == 0) return 0;
    return channels_last ? lines.rows : lines.rows / channels * lines.columns;
  }
};
template <class T>
[[nodiscard]] channel_view channels_first(T* data, std::int64_t batch, std::int64_t channels, std::int64_t inner) {
  return {as_matrix(data, batch * channels, inner), channels, false};
}
template <class T>
[[nodiscard]] channel_view channels_last(T* data, std::int64_t batch, std::int64_t channels, std::int64_t inner) {
  return {as_matrix(data, batch * inner, channels), channels, true};
}

/// Where a channel's number lies for vector i of a line: one number for the line, or one for each element.
template <class V, class P>
AMP_INLINE V channel_value(const float* values, bool channels_last, std::int64_t channel, std::int64_t column, P part) {
  return channels_last ? simd::load<V>(values + column, part) : V(values[channel]);
}

/// Work items of a pass: channels (first), or blocks of rows (last), whose partial results are merged in order.
[[nodiscard]] inline row_blocks channel_blocks(const channel_view& x) noexcept {
  return x.channels_last ? row_blocks{x.lines.rows, 256} : row_blocks{x.channels, 1};
}

/// Mean and sum of squared differences about it, per block and channel: out[block or 0][2][channels].
struct channel_moments {
  struct args {
    const channel_view& x;
    row_blocks blocks;
    float* out;
  };
  template <class V>
  AMP_INLINE static void run(const args& a, std::int64_t item) {
    a.x.channels_last ? last<V>(a, item) : first<V>(a, item);
  }

 private:
  template <class V>
  AMP_INLINE static void first(const args& a, std::int64_t channel) {
    const matrix_view& lines = a.x.lines;
    RowReader<V> x(lines);
    const double count = static_cast<double>(a.x.per_channel());
    float mean = 0.f;
    double sum[2] = {};
    for (int pass = 0; pass < 2; ++pass) {  // about the first element, then about the mean
      float about = mean;
      sum[0] = sum[1] = 0;
      for (std::int64_t r = channel; r < lines.rows; r += a.x.channels) {
        x.row(r);
        if (pass == 0 && r == channel) about = *x.at(0, std::min(segment, lines.columns));
        sums_about<V>(x, lines.columns, about, sum);
      }
      mean = static_cast<float>(static_cast<double>(about) + sum[0] / count);
    }
    // `mean` moved once more, by what the second pass found, which is why its square goes.
    a.out[channel] = mean;
    a.out[a.x.channels + channel] = static_cast<float>(sum[1] - sum[0] * sum[0] / count);
  }
  template <class V>
  AMP_INLINE static void last(const args& a, std::int64_t block) {
    const matrix_view& lines = a.x.lines;
    RowReader<V> x(lines);
    const std::int64_t begin_row = a.blocks.begin(block), end_row = a.blocks.end(block);
    const V inverse(1.f / static_cast<float>(end_row - begin_row));
    float* const means = a.out + block * 2 * a.x.channels;
    float* const squares = means + a.x.channels;
    for_each_segment(lines.columns, [&](std::int64_t begin, std::int64_t n) AMP_LAMBDA {
      alignas(64) float about[segment];
      alignas(64) float sum[segment];
      alignas(64) float square[segment];
      for (int pass = 0; pass < 2; ++pass) {
        for (std::int64_t i = 0; i < n; ++i) sum[i] = square[i] = 0.f;
        for (std::int64_t r = begin_row; r < end_row; ++r) {
          x.row(r);
          const float* from = x.at(begin, n);
          if (pass == 0 && r == begin_row) {
            for (std::int64_t i = 0; i < n; ++i) about[i] = from[i];
          }
          for_each_vector<V>(n, [&](std::int64_t i, auto part) AMP_LAMBDA {
            const V d = simd::load<V>(from + i, part) - simd::load<V>(about + i, part);
            simd::store(sum + i, simd::load<V>(sum + i, part) + d, part);
            simd::store(square + i, simd::load<V>(square + i, part) + d * d, part);
          });
        }
        for_each_vector<V>(n, [&](std::int64_t i, auto part) AMP_LAMBDA {
          const V total = simd::load<V>(sum + i, part), shift = total * inverse;
          const V mean = simd::load<V>(about + i, part) + shift;
          simd::store(about + i, mean, part);
          if (pass == 0) return;
          simd::store(means + begin + i, mean, part);
          simd::store(squares + begin + i, simd::load<V>(square + i, part) - total * shift, part);
        });
      }
    });
  }
};

/// y = (x - mean) scale + shift (+ added), then max with 0 if asked; all of channels' numbers in fp32.
struct channel_normalize {
  struct args {
    const channel_view& x;
    matrix_view y, added;
    const float *mean, *scale, *shift;
    bool relu;
    row_blocks blocks;
  };
  template <class V>
  AMP_INLINE static void run(const args& a, std::int64_t block) {
    RowReader<V> x(a.x.lines), added(a.added);
    RowWriter<V> y(a.y);
    const bool last = a.x.channels_last;
    for (std::int64_t r = a.blocks.begin(block); r < a.blocks.end(block); ++r) {
      const std::int64_t channel = last ? 0 : r % a.x.channels;
      x.row(r);
      y.row(r);
      added.row(r);
      for_each_segment(a.x.lines.columns, [&](std::int64_t begin, std::int64_t n) AMP_LAMBDA {
        const float* from = x.at(begin, n);
        const float* more = a.added.data == nullptr ? nullptr : added.at(begin, n);
        float* to = y.at(begin);
        for_each_vector<V>(n, [&](std::int64_t i, auto part) AMP_LAMBDA {
          const auto value = [&](const float* p)
                                 AMP_LAMBDA { return channel_value<V>(p, last, channel, begin + i, part); };
          V out = (simd::load<V>(from + i, part) - value(a.mean)) * value(a.scale) + value(a.shift);
          if (more != nullptr) out = out + simd::load<V>(more + i, part);
          if (a.relu) out = amp::nn::relu{}(out);
          simd::store(to + i, out, part);
        });
        y.commit(begin, n);
      });
    }
  }
};

/// Sums of dy and dy (x - mean), per block and channel: out[block or 0][2][channels]; dy counts as 0 where y is not
/// positive, if y is given.
struct channel_gradient_sums {
  struct args {
    const channel_view& x;
    matrix_view dy, y;
    const float* mean;
    row_blocks blocks;
    float* out;
  };
  template <class V>
  AMP_INLINE static void run(const args& a, std::int64_t item) {
    a.x.channels_last ? last<V>(a, item) : first<V>(a, item);
  }

 private:
  /// The rows of x, dy and, if given, y, side by side.
  template <class V>
  struct readers {
    RowReader<V> x, dy, y;
    bool masked;

    AMP_INLINE explicit readers(const args& a) : x(a.x.lines), dy(a.dy), y(a.y), masked(a.y.data != nullptr) {}
    /// Calls `f(x, gradient, begin, n)` for each segment of a row; `gradient(i, part)` is dy where it counts.
    template <class F>
    AMP_INLINE void each_segment(std::int64_t row, std::int64_t columns, const F& f) {
      x.row(row);
      dy.row(row);
      y.row(row);
      for_each_segment(columns, [&](std::int64_t begin, std::int64_t n) AMP_LAMBDA {
        const float *grad = dy.at(begin, n), *out = masked ? y.at(begin, n) : nullptr;
        const auto gradient = [&](std::int64_t i, auto part) AMP_LAMBDA {
          const V g = simd::load<V>(grad + i, part);
          return out == nullptr ? g : g * amp::nn::relu{}.slope(simd::load<V>(out + i, part));
        };
        f(x.at(begin, n), gradient, begin, n);
      });
    }
  };

  template <class V>
  AMP_INLINE static void first(const args& a, std::int64_t channel) {
    readers<V> rows(a);
    double sum[2] = {};
    for (std::int64_t r = channel; r < a.x.lines.rows; r += a.x.channels) {
      rows.each_segment(r, a.x.lines.columns,
                        [&](const float* from, const auto& gradient, std::int64_t /*begin*/, std::int64_t n)
                            AMP_LAMBDA {
                              lane_sums<V>(
                                  n,
                                  [&](std::int64_t i, auto part, V(&total)[2]) AMP_LAMBDA {
                                    total[0] = gradient(i, part);
                                    total[1] = total[0] * (simd::load<V>(from + i, part) - V(a.mean[channel]));
                                  },
                                  sum);
                            });
    }
    a.out[channel] = static_cast<float>(sum[0]);
    a.out[a.x.channels + channel] = static_cast<float>(sum[1]);
  }
  template <class V>
  AMP_INLINE static void last(const args& a, std::int64_t block) {
    readers<V> rows(a);
    float* const sums = a.out + block * 2 * a.x.channels;
    float* const products = sums + a.x.channels;
    for (std::int64_t r = a.blocks.begin(block); r < a.blocks.end(block); ++r) {
      rows.each_segment(r, a.x.lines.columns,
                        [&](const float* from, const auto& gradient, std::int64_t begin, std::int64_t n) AMP_LAMBDA {
                          for_each_vector<V>(n, [&](std::int64_t i, auto part) AMP_LAMBDA {
                            const V g = gradient(i, part);
                            const V d = simd::load<V>(from + i, part) - simd::load<V>(a.mean + begin + i, part);
                            float *sum = sums + begin + i, *product = products + begin + i;
                            simd::store(sum, simd::load<V>(sum, part) + g, part);
                            simd::store(product, simd::load<V>(product, part) + g * d, part);
                          });
                        });
    }
  }
};

/// dx = (dy - mean_dy - (x - mean) slope) scale, and the gradient of what was added: dy itself, masked.
struct channel_gradients {
  struct args {
    const channel_view& x;
    matrix_view dx, dadded, dy, y;
    const float *mean, *mean_dy, *slope, *scale;
    row_blocks blocks;
  };
  template <class V>
  AMP_INLINE static void run(const args& a, std::int64_t block) {
    RowReader<V> x(a.x.lines), dy(a.dy), y(a.y);
    RowWriter<V> dx(a.dx), dadded(a.dadded);
    const bool last = a.x.channels_last;
    for (std::int64_t r = a.blocks.begin(block); r < a.blocks.end(block); ++r) {
      const std::int64_t channel = last ? 0 : r % a.x.channels;
      x.row(r);
      dy.row(r);
      y.row(r);
      dx.row(r);
      dadded.row(r);
      for_each_segment(a.x.lines.columns, [&](std::int64_t begin, std::int64_t n) AMP_LAMBDA {
        const float *from = x.at(begin, n), *grad = dy.at(begin, n);
        const float* out = a.y.data == nullptr ? nullptr : y.at(begin, n);
        float *to = dx.at(begin), *to_added = a.dadded.data == nullptr ? nullptr : dadded.at(begin);
        for_each_vector<V>(n, [&](std::int64_t i, auto part) AMP_LAMBDA {
          const auto value = [&](const float* p)
                                 AMP_LAMBDA { return channel_value<V>(p, last, channel, begin + i, part); };
          V g = simd::load<V>(grad + i, part);
          const V d = simd::load<V>(from + i, part) - value(a.mean);
          if (out != nullptr) g = g * amp::nn::relu{}.slope(simd::load<V>(out + i, part));
          if (to_added != nullptr) simd::store(to_added + i, g, part);
          simd::store(to + i, (g - value(a.mean_dy) - d * value(a.slope)) * value(a.scale), part);
        });
        dx.commit(begin, n);
        if (to_added != nullptr) dadded.commit(begin, n);
      });
    }
  }
};

}  // namespace amp::nn
