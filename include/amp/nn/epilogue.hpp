/// What follows a matrix product, as stages that compose: each works in place on a piece of a row of fp32 results while
/// it is in cache. `chain(bias{b}, keep{pre}, activate<gelu_erf>{}, residual{x})` runs them in that order.
#pragma once
#include <amp/apply/exec.hpp>
#include <amp/core/config.hpp>
#include <amp/nn/activation.hpp>
#include <amp/nn/rows.hpp>
#include <amp/simd/load.hpp>
#include <amp/simd/math.hpp>
#include <amp/tensor/matrix.hpp>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

namespace amp::nn {

/// Calls x = f(x, i, part) on n floats in place.
template <class V, class F>
AMP_INLINE void update_each(float* x, std::int64_t n, const F& f) {
  for_each_vector<V>(n, [&](std::int64_t i, auto part)
                            AMP_LAMBDA { simd::store(x + i, f(simd::load<V>(x + i, part), i, part), part); });
}
/// The floats of a piece of a row of any format: in place or through `buffer`, which holds a segment.
template <class V>
AMP_INLINE const float* floats_of(const matrix_view& m, std::int64_t row, std::int64_t column, std::int64_t n,
                                  float* buffer) {
  const std::int64_t offset = row * m.stride + column;
  if (m.type == dtype::fp32) return static_cast<const float*>(m.data) + offset;
  apply::decode<V>(m.flat(), offset, n, buffer);
  return buffer;
}

/// Adds a bias to every row.
struct bias {
  const float* data;  ///< [columns]

  template <class V>
  AMP_INLINE void run(float* x, std::int64_t /*row*/, std::int64_t column, std::int64_t n) const {
    const float* from = data + column;
    update_each<V>(x, n,
                   [&](const V& v, std::int64_t i, auto part) AMP_LAMBDA { return v + simd::load<V>(from + i, part); });
  }
};

/// Applies an activation.
template <Activation A>
struct activate {
  A f{};

  template <class V>
  AMP_INLINE void run(float* x, std::int64_t /*row*/, std::int64_t /*column*/, std::int64_t n) const {
    update_each<V>(x, n, [&](const V& v, std::int64_t /*i*/, auto /*part*/) AMP_LAMBDA { return f(v); });
  }
};

/// Stores what has come so far, such as the pre-activation that a backward pass needs. No data: does nothing.
struct keep {
  matrix_view to;

  template <class V>
  AMP_INLINE void run(float* x, std::int64_t row, std::int64_t column, std::int64_t n) const {
    if (to.data != nullptr) apply::encode<V>(x, n, to.flat(), row * to.stride + column);
  }
};

/// Adds a matrix: a residual connection, or the output itself to accumulate into it. No data: does nothing.
struct residual {
  matrix_view from;

  template <class V>
  AMP_INLINE void run(float* x, std::int64_t row, std::int64_t column, std::int64_t n) const {
    if (from.data == nullptr) return;
    alignas(64) float buffer[segment];
    const float* other = floats_of<V>(from, row, column, n, buffer);
    update_each<V>(
        x, n, [&](const V& v, std::int64_t i, auto part) AMP_LAMBDA { return v + simd::load<V>(other + i, part); });
  }
};

/// Multiplies by a number.
struct scaled {
  float factor;

  template <class V>
  AMP_INLINE void run(float* x, std::int64_t /*row*/, std::int64_t /*column*/, std::int64_t n) const {
    update_each<V>(x, n, [&](const V& v, std::int64_t /*i*/, auto /*part*/) AMP_LAMBDA { return v * V(factor); });
  }
};

/// Where a slope is taken: at the kept input of the activation, or from its output.
enum class slope_source : std::uint8_t { input, output };

template <slope_source From, class F, class V>
AMP_INLINE V slope_at(const F& f, const V& kept) {
  if constexpr (From == slope_source::input) {
    return f.slope(kept);
  } else {
    return f.slope_from_output(kept);
  }
}
/// Backward of `activate`: multiplies by the slope.
template <slope_source From, Activation F>
struct times_slope_of {
  matrix_view kept;
  F f{};

  template <class V>
  AMP_INLINE void run(float* x, std::int64_t row, std::int64_t column, std::int64_t n) const {
    alignas(64) float buffer[segment];
    const float* at = floats_of<V>(kept, row, column, n, buffer);
    update_each<V>(x, n, [&](const V& v, std::int64_t i, auto part) AMP_LAMBDA {
      return v * slope_at<From>(f, simd::load<V>(at + i, part));
    });
  }
};
template <Activation F>
using times_slope = times_slope_of<slope_source::input, F>;
template <InvertibleSlope F>
using times_slope_from_output = times_slope_of<slope_source::output, F>;

/// Raises a number to the largest magnitude seen: the amax that the next fp8 scale comes from. NaNs are passed over.
struct record_amax {
  std::atomic<float>* amax;  ///< start it at 0

  template <class V>
  AMP_INLINE void run(float* x, std::int64_t /*row*/, std::int64_t /*column*/, std::int64_t n) const {
    V largest(0.f);
    for_each_vector<V>(n, [&](std::int64_t i, auto part)
                              AMP_LAMBDA { largest = simd::max(largest, simd::abs(simd::load<V>(x + i, part))); });
    alignas(64) float lane[simd::lanes<V>];
    simd::store(lane, largest);
    float top = lane[0];
    for (int k = 1; k < simd::lanes<V>; ++k) top = lane[k] > top ? lane[k] : top;
    float seen = amax->load(std::memory_order_relaxed);
    while (seen < top && !amax->compare_exchange_weak(seen, top, std::memory_order_relaxed)) {
    }
  }
};

/// Stages one after the other; none: the plain product.
template <class... Stage>
struct epilogue {
  std::tuple<Stage...> stages;

  template <class V>
  AMP_INLINE void run(float* x, std::int64_t row, std::int64_t column, std::int64_t n) const {
    [&]<std::size_t... K>(std::index_sequence<K...>) AMP_LAMBDA {
      (std::get<K>(stages).template run<V>(x, row, column, n), ...);
    }
    (std::index_sequence_for<Stage...>{});
  }
};
template <class... Stage>
[[nodiscard]] epilogue<Stage...> chain(const Stage&... stage) {
  return {{stage...}};
}

/// y = epilogue(x) for a product that is already there: what follows a library's GEMM.
template <class Epilogue>
struct epilogue_kernel {
  struct args {
    matrix_view y, x;
    const Epilogue& f;
    row_blocks blocks;
  };
  template <class V>
  AMP_INLINE static void run(const args& a, std::int64_t block) {
    alignas(64) float buffer[segment];
    for (std::int64_t r = a.blocks.begin(block); r < a.blocks.end(block); ++r) {
      for_each_segment(a.x.columns, [&](std::int64_t begin, std::int64_t n) AMP_LAMBDA {
        apply::decode<V>(a.x.flat(), r * a.x.stride + begin, n, buffer);
        a.f.template run<V>(buffer, r, begin, n);
        apply::encode<V>(buffer, n, a.y.flat(), r * a.y.stride + begin);
      });
    }
  }
};
/// Stages over a product that is already there.
/// shape   y, x [rows, columns]; y may be x
/// throws  amp::error for shapes that do not fit
template <exec::HostExecutor E, class Epilogue>
void apply_epilogue(const E& executor, const matrix_view& y, const matrix_view& x, const Epilogue& f,
                    where at = where::here()) {
  expects_matrix(y, x.rows, x.columns, "y", true, at);
  const auto blocks = independent_blocks(x.rows, x.columns);
  run_items<epilogue_kernel<Epilogue>>(executor, blocks.count(), x.rows * x.columns,
                                       typename epilogue_kernel<Epilogue>::args{y, x, f, blocks});
}

}  // namespace amp::nn
