/// What row-wise layers share: rows of any format as floats in cache-sized segments, sums in a fixed order, and blocks
/// of rows shared out by an executor. Equal bits for every executor, target and thread count.
#pragma once
#include <algorithm>
#include <amp/apply/exec.hpp>
#include <amp/apply/reduce.hpp>
#include <amp/apply/scratch.hpp>
#include <amp/core/config.hpp>
#include <amp/simd/load.hpp>
#include <amp/simd/target.hpp>
#include <amp/simd/vec.hpp>
#include <amp/tensor/matrix.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace amp::nn {

/// Elements of a row that are held as floats at a time: three such buffers fit in L1. A sum is defined on segments.
inline constexpr std::int64_t segment = 2048;

/// Calls `f(begin, n)` for each segment of a row, in order.
template <class F>
AMP_INLINE void for_each_segment(std::int64_t columns, const F& f) {
  for (std::int64_t begin = 0; begin < columns; begin += segment) f(begin, std::min(segment, columns - begin));
}

/// Calls `f(i, part)` for each vector of n elements: simd::full, at the end simd::part.
template <class V, class F>
AMP_INLINE void for_each_vector(std::int64_t n, const F& f) {
  constexpr int width = simd::lanes<V>;
  std::int64_t i = 0;
  for (; i + width <= n; i += width) f(i, simd::full{});
  if constexpr (width > 1) {
    if (i < n) f(i, simd::part{static_cast<int>(n - i)});
  }
}

/// One row of a matrix as floats: in place if it is fp32, else decoded a segment at a time and kept until another is
/// asked for.
template <class V>
class RowReader {
 public:
  explicit RowReader(const matrix_view& m) : matrix_(m) {}

  void row(std::int64_t r) {
    offset_ = r * matrix_.stride;
    held_ = -1;
  }
  const float* at(std::int64_t begin, std::int64_t n) {
    if (matrix_.type == dtype::fp32) return static_cast<const float*>(matrix_.data) + offset_ + begin;
    if (held_ != begin) apply::decode<V>(matrix_.flat(), offset_ + begin, n, buffer_);
    held_ = begin;
    return buffer_;
  }

 private:
  const matrix_view& matrix_;
  std::int64_t offset_ = 0, held_ = -1;
  alignas(64) float buffer_[segment];
};

/// One row that is written: `at` says where the floats of a segment go, `commit` rounds them into the matrix.
template <class V>
class RowWriter {
 public:
  explicit RowWriter(const matrix_view& m) : matrix_(m) {}

  void row(std::int64_t r) { offset_ = r * matrix_.stride; }
  float* at(std::int64_t begin) {
    return matrix_.type == dtype::fp32 ? static_cast<float*>(matrix_.data) + offset_ + begin : buffer_;
  }
  void commit(std::int64_t begin, std::int64_t n) {
    if (matrix_.type != dtype::fp32) apply::encode<V>(buffer_, n, matrix_.flat(), offset_ + begin);
  }

 private:
  const matrix_view& matrix_;
  std::int64_t offset_ = 0;
  alignas(64) float buffer_[segment];
};

/// Adds to total[k] the sum over i < n of what `term(i, part, out)` writes to out[k]; n is at most a segment.
/// Element i belongs to logical fp32 lane i % 64; the lanes are joined by a halving tree in double (apply/reduce.hpp).
template <class V, int K, class Term>
AMP_INLINE void lane_sums(std::int64_t n, const Term& term, double (&total)[K]) {
  constexpr int width = simd::lanes<V>;
  constexpr int vectors = apply::reduction_lanes / width;
  alignas(64) float lane[K][apply::reduction_lanes] = {};
  const std::int64_t whole = n - n % apply::reduction_lanes;
  if constexpr (width == 1) {
    for (std::int64_t i = 0; i < whole; ++i) {
      float x[K];
      term(i, simd::full{}, x);
      for (int k = 0; k < K; ++k) lane[k][i % apply::reduction_lanes] += x[k];
    }
  } else {
    [&]<int... J>(std::integer_sequence<int, J...>) AMP_LAMBDA {
      V sum[vectors][K];
      const auto each = [](const auto& f) AMP_LAMBDA {
        [&]<int... Q>(std::integer_sequence<int, Q...>) AMP_LAMBDA { (f(std::integral_constant<int, Q>{}), ...); }
        (std::make_integer_sequence<int, K>{});
      };
      (each([&](auto k) AMP_LAMBDA { sum[J][k] = V(0.f); }), ...);
      const auto add = [&](std::int64_t i, auto j) AMP_LAMBDA {
        V x[K];
        term(i + j * width, simd::full{}, x);
        each([&](auto k) AMP_LAMBDA { sum[j][k] = sum[j][k] + x[k]; });
      };
      for (std::int64_t i = 0; i < whole; i += apply::reduction_lanes) (add(i, std::integral_constant<int, J>{}), ...);
      (each([&](auto k) AMP_LAMBDA { simd::store(&lane[k][J * width], sum[J][k]); }), ...);
    }
    (std::make_integer_sequence<int, vectors>{});
  }
  for (std::int64_t i = whole; i < n; i += width) {  // fewer than 64: lane by lane
    const int count = static_cast<int>(std::min<std::int64_t>(width, n - i));
    V x[K];
    if constexpr (width == 1) {
      term(i, simd::full{}, x);
    } else {
      term(i, simd::part{count}, x);
    }
    for (int k = 0; k < K; ++k) {
      alignas(64) float values[width];
      simd::store(values, x[k]);
      for (int j = 0; j < count; ++j) lane[k][i - whole + j] += values[j];
    }
  }
  for (int k = 0; k < K; ++k) total[k] += apply::halving_tree(lane[k]);
}

/// Sum and sum of squares of a row's differences from a number.
template <class V>
AMP_INLINE void sums_about(RowReader<V>& x, std::int64_t columns, float about, double (&sum)[2]) {
  for_each_segment(columns, [&](std::int64_t begin, std::int64_t n) AMP_LAMBDA {
    const float* from = x.at(begin, n);
    lane_sums<V>(
        n,
        [&](std::int64_t i, auto part, V(&out)[2]) AMP_LAMBDA {
          const V d = simd::load<V>(from + i, part) - V(about);
          out[0] = d;
          out[1] = d * d;
        },
        sum);
  });
}

/// Runs `Kernel::run<V>(args, i)` for i < items on an executor, each call in a flush scope; `elements` tells the
/// executor how much work there is.
template <class Kernel, class Args, exec::HostExecutor E>
void run_items(const E& executor, std::int64_t items, std::int64_t elements, const Args& args) {
  const auto kernel = simd::kernel<Kernel, const Args&, std::int64_t>(simd::resolve(executor.isa()));
  const auto task = [&](std::int64_t i) {
    const simd::flush_scope flush;
    kernel(args, i);
  };
  executor.run(items, elements, apply::task_ref(task));
}

/// Blocks of rows, by size alone.
struct row_blocks {
  std::int64_t rows, per_block;

  [[nodiscard]] std::int64_t count() const noexcept { return rows > 0 ? (rows - 1) / per_block + 1 : 0; }
  [[nodiscard]] std::int64_t begin(std::int64_t i) const noexcept { return i * per_block; }
  [[nodiscard]] std::int64_t end(std::int64_t i) const noexcept { return std::min(rows, (i + 1) * per_block); }
};
/// For rows that do not depend on one another: about a chunk of elements each.
[[nodiscard]] inline row_blocks independent_blocks(std::int64_t rows, std::int64_t columns) noexcept {
  return {rows, std::max<std::int64_t>(1, apply::default_chunk / std::max<std::int64_t>(1, columns))};
}
/// For sums over rows: at most 64 blocks, whose partial sums are added in order.
[[nodiscard]] inline row_blocks summed_blocks(std::int64_t rows) noexcept {
  return {rows, std::max<std::int64_t>(16, (rows + 63) / 64)};
}

/// A parameter vector as floats: in place if it is fp32, else a decoded copy; `or_else` throughout where there is none.
class Floats {
 public:
  Floats(const tensor_view& t, std::int64_t size, float or_else) {
    if (t.data != nullptr && t.type == dtype::fp32) {
      data_ = static_cast<const float*>(t.data);
      return;
    }
    copy_.assign(static_cast<std::size_t>(size), or_else);
    if (t.data != nullptr) {
      for (std::int64_t i = 0; i < size; i += segment) {
        apply::decode<float>(t, i, std::min(segment, size - i), copy_.data() + i);
      }
    }
    data_ = copy_.data();
  }
  Floats(const Floats&) = delete;  // data() may point into it
  Floats& operator=(const Floats&) = delete;

  [[nodiscard]] const float* data() const noexcept { return data_; }

 private:
  std::vector<float> copy_;
  const float* data_;
};

/// Sums over rows, a partial one per block: `[block][vector][column]`, added up in block order.
struct column_sums {
  struct args {
    const float* partial;
    std::int64_t blocks, vectors, columns;
    tensor_view out[2];
  };
  template <class V>
  AMP_INLINE static void run(const args& a, std::int64_t item) {
    const tensor_view& out = a.out[item];
    if (out.data == nullptr) return;
    for_each_segment(a.columns, [&](std::int64_t begin, std::int64_t n) AMP_LAMBDA {
      alignas(64) float sum[segment] = {};
      for (std::int64_t b = 0; b < a.blocks; ++b) {
        const float* from = a.partial + (b * a.vectors + item) * a.columns + begin;
        for_each_vector<V>(n, [&](std::int64_t i, auto part) AMP_LAMBDA {
          simd::store(sum + i, simd::load<V>(sum + i, part) + simd::load<V>(from + i, part), part);
        });
      }
      apply::encode<V>(sum, n, out, begin);
    });
  }
};

/// throws  amp::error for what is added to a variance and is negative or NaN
inline void expects_eps(float eps, where at) {
  expects(
      eps >= 0.f, [&] { return "eps is " + std::to_string(eps) + "; it must not be negative"; }, at);
}
/// throws  amp::error unless the vector is absent or has `size` elements
inline void expects_vector(const tensor_view& t, std::int64_t size, std::string_view what, bool written, where at) {
  const auto label = [&] { return std::string(t.name.empty() ? what : t.name); };
  if (t.data == nullptr) return;
  expects(
      t.size == size,
      [&] {
        return label() + " has " + std::to_string(t.size) + " elements, but " + std::to_string(size) + " are needed";
      },
      at);
  expects(
      !written || !t.readonly, [&] { return label() + " is read-only, but it is an output"; }, at);
}

}  // namespace amp::nn
