/// The blocked matrix product's parts: packing into panels of floats, and the register tile.
/// Every element is one chain of fma over k in blocks of fixed length, so tile shapes, targets and threads change no
/// bit.
#pragma once
#include <algorithm>
#include <amp/apply/scratch.hpp>
#include <amp/core/config.hpp>
#include <amp/simd/load.hpp>
#include <amp/simd/math.hpp>
#include <amp/simd/vec.hpp>
#include <amp/tensor/matrix.hpp>
#include <cstdint>
#include <utility>

namespace amp::nn::blocked_gemm {

/// A tile of the output and a block of k: the packed operands and the fp32 tile fit in L2.
inline constexpr std::int64_t tile_rows = 192, tile_columns = 384, block_k = 256;

/// Rows and vectors of the tile that is held in registers.
template <class V>
struct register_tile {
  static constexpr int rows = simd::lanes<V> == 16 ? 12 : 4;
  static constexpr int vectors = simd::lanes<V> == 8 ? 3 : (simd::lanes<V> == 1 ? 4 : 2);
  static constexpr int columns = vectors * simd::lanes<V>;
  static_assert(tile_rows % rows == 0 && tile_columns % columns == 0 && columns % 4 == 0);
};

/// What is packed: element (i, k) of `count` x `depth` lies at row i, column k of the matrix if `along_k`, else at row
/// k, column i. Panels of `width` elements: to[panel][k][width], padded with zeros.
struct pack_args {
  const matrix_view& from;
  bool along_k;
  std::int64_t first, count, first_k, depth;
  int width;
  float* to;
};

typedef float f32x4 __attribute__((vector_size(16)));
AMP_INLINE f32x4 load4(const float* p) { return *reinterpret_cast<const simd::detail::raw_types<4>::f32_memory*>(p); }
AMP_INLINE void store4(float* p, const f32x4& x) { *reinterpret_cast<simd::detail::raw_types<4>::f32_memory*>(p) = x; }
/// Four rows of `depth` floats to columns, `width` apart.
AMP_INLINE void transpose4(const float* const (&row)[4], std::int64_t depth, int width, float* to) {
  std::int64_t k = 0;
  for (; k + 4 <= depth; k += 4, to += 4 * width) {
    const f32x4 a = load4(row[0] + k), b = load4(row[1] + k), c = load4(row[2] + k), d = load4(row[3] + k);
    const f32x4 ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const f32x4 cd0 = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd1 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    store4(to, __builtin_shufflevector(ab0, cd0, 0, 1, 4, 5));
    store4(to + width, __builtin_shufflevector(ab0, cd0, 2, 3, 6, 7));
    store4(to + 2 * width, __builtin_shufflevector(ab1, cd1, 0, 1, 4, 5));
    store4(to + 3 * width, __builtin_shufflevector(ab1, cd1, 2, 3, 6, 7));
  }
  for (; k < depth; ++k, to += width) {
    for (int r = 0; r < 4; ++r) to[r] = row[r][k];
  }
}

struct pack_kernel {
  template <class V>
  AMP_INLINE static void run(const pack_args& p) {
    p.along_k ? rows_to_panels<V>(p) : columns_to_panels<V>(p);
  }

 private:
  template <class V>
  AMP_INLINE static const float* floats(const pack_args& p, std::int64_t row, std::int64_t column, std::int64_t n,
                                        float* buffer) {
    const std::int64_t offset = row * p.from.stride + column;
    if (p.from.type == dtype::fp32) return static_cast<const float*>(p.from.data) + offset;
    apply::decode<V>(p.from.flat(), offset, n, buffer);
    return buffer;
  }
  template <class V>
  AMP_INLINE static void rows_to_panels(const pack_args& p) {
    alignas(64) float buffer[4][block_k];
    alignas(64) const float zeros[block_k] = {};
    const std::int64_t padded = (p.count + p.width - 1) / p.width * p.width;
    for (std::int64_t i = 0; i < padded; i += 4) {
      const float* row[4];
      for (std::int64_t r = 0; r < 4; ++r) {
        row[r] = i + r < p.count ? floats<V>(p, p.first + i + r, p.first_k, p.depth, buffer[r]) : zeros;
      }
      transpose4(row, p.depth, p.width, p.to + i / p.width * p.width * p.depth + i % p.width);
    }
  }
  template <class V>
  AMP_INLINE static void columns_to_panels(const pack_args& p) {
    alignas(64) float buffer[tile_columns];
    for (std::int64_t k = 0; k < p.depth; ++k) {
      const float* from = floats<V>(p, p.first_k + k, p.first, p.count, buffer);
      for (std::int64_t i = 0; i < p.count; i += p.width) {
        float* to = p.to + i * p.depth + k * p.width;
        if (i + p.width <= p.count) {
          for (int j = 0; j < p.width; j += 4) store4(to + j, load4(from + i + j));
        } else {
          for (int j = 0; j < p.width; ++j) to[j] = i + j < p.count ? from[i + j] : 0.f;
        }
      }
    }
  }
};

struct multiply_args {
  const float *a, *b;  ///< packed panels of register_tile rows and columns
  std::int64_t rows, columns, depth;
  float* c;  ///< [rows up to a whole panel][stride]
  std::int64_t stride;
  bool add;  ///< to what is in c; else c is written
};

struct multiply_kernel {
  template <class V>
  AMP_INLINE static void run(const multiply_args& m) {
    using tile = register_tile<V>;
    for (std::int64_t j = 0; j < m.columns; j += tile::columns) {
      for (std::int64_t i = 0; i < m.rows; i += tile::rows) {
        one_tile<V>(m.depth, m.a + i * m.depth, m.b + j * m.depth, m.c + i * m.stride + j, m.stride, m.add);
      }
    }
  }

 private:
  template <class V>
  AMP_INLINE static void one_tile(std::int64_t depth, const float* a, const float* b, float* c, std::int64_t stride,
                                  bool add) {
    using tile = register_tile<V>;
    constexpr int vectors = tile::vectors;
    [&]<int... I>(std::integer_sequence<int, I...>) AMP_LAMBDA {
      V sum[tile::rows * vectors] = {((void)I, V(0.f))...};
      for (std::int64_t k = 0; k < depth; ++k, a += tile::rows, b += tile::columns) {
        V right[vectors];
        ((I < vectors ? (void)(right[I % vectors] = simd::load<V>(b + I % vectors * simd::lanes<V>)) : (void)0), ...);
        ((sum[I] = simd::fma(V(a[I / vectors]), right[I % vectors], sum[I])), ...);
      }
      const auto put = [&](const V& x, float* to) AMP_LAMBDA { simd::store(to, add ? simd::load<V>(to) + x : x); };
      (put(sum[I], c + I / vectors * stride + I % vectors * simd::lanes<V>), ...);
    }
    (std::make_integer_sequence<int, tile::rows * vectors>{});
  }
};

}  // namespace amp::nn::blocked_gemm
