/// Matrices in 8-bit and 4-bit formats with a scale per tensor or block: the CPU's reference of every recipe. Equal
/// bits for every executor, target and thread count.
#pragma once
#include <algorithm>
#include <amp/apply/engine.hpp>
#include <amp/apply/exec.hpp>
#include <amp/core/check.hpp>
#include <amp/core/config.hpp>
#include <amp/fn/compute_scale.hpp>
#include <amp/formats/convert.hpp>
#include <amp/half_traits.hpp>
#include <amp/nn/rows.hpp>
#include <amp/simd/load.hpp>
#include <amp/simd/math.hpp>
#include <amp/simd/random.hpp>
#include <amp/tensor/matrix.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

namespace amp::fp8 {

/// A matrix in format T with a scale per block.
template <class T, class Scale>
struct Quantized {
  std::int64_t rows = 0, columns = 0;
  std::int64_t block_rows = 1, block_columns = 1;
  std::vector<T> codes;       ///< row-major; e2m1 one per byte (pack() makes two)
  std::vector<Scale> scales;  ///< of the blocks, row-major: what a code is to be multiplied by
  float tensor_scale = 1.f;   ///< and then by this
  float amax = 0.f;           ///< largest magnitude of the source, NaN ignored
  bool finite = true;         ///< the source held no infinity and no NaN

  [[nodiscard]] std::int64_t blocks_in_row() const noexcept {
    return columns == 0 ? 0 : (columns - 1) / block_columns + 1;
  }
  [[nodiscard]] Scale scale_at(std::int64_t r, std::int64_t c) const {
    return scales[static_cast<std::size_t>(r / block_rows * blocks_in_row() + c / block_columns)];
  }
  [[nodiscard]] T code_at(std::int64_t r, std::int64_t c) const {
    return codes[static_cast<std::size_t>(r * columns + c)];
  }
  /// The value that the code stands for, in fp32.
  [[nodiscard]] float value_at(std::int64_t r, std::int64_t c) const {
    const float code = code_at(r, c);
    if constexpr (std::is_same_v<Scale, e8m0>) {
      const int power = scale_at(r, c).bits() - 127;  // in two steps: 2^-127 would be flushed where a thread flushes
      return code * power_of_two(power / 2) * power_of_two(power - power / 2);
    } else {
      return code * static_cast<float>(scale_at(r, c)) * tensor_scale;
    }
  }

  [[nodiscard]] static constexpr float power_of_two(int power) {
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(power + 127) << 23);
  }
};

/// The values as dense fp32, row-major.
template <class T, class Scale>
[[nodiscard]] std::vector<float> dequantize(const Quantized<T, Scale>& q) {
  std::vector<float> values;
  values.reserve(q.codes.size());
  for (std::int64_t r = 0; r < q.rows; ++r) {
    for (std::int64_t c = 0; c < q.columns; ++c) values.push_back(q.value_at(r, c));
  }
  return values;
}

/// A factor in two steps, so that neither is subnormal.
struct multiplier {
  float first = 1.f, second = 1.f;
};

/// Scale rules: from the amax of a block to the scale that is stored and the multiplier of its elements.
struct fixed_scale {  ///< the same for all blocks
  using type = float;
  float scale, inverse;
  [[nodiscard]] type of(float, multiplier& m) const {
    m = {scale, 1.f};
    return inverse;
  }
};
template <class T>
struct float_scale {
  using type = float;
  fn::scale_rule rule;
  [[nodiscard]] type of(float amax, multiplier& m) const {
    const fn::scale_pair pair = fn::scale_of_amax(amax, half_traits<T>::max, rule);
    m = {pair.scale, 1.f};
    return pair.inverse;
  }
};
template <class T>
struct power_scale {
  using type = e8m0;
  [[nodiscard]] type of(float amax, multiplier& m) const {
    const e8m0 scale = fn::e8m0_of_amax(amax, half_traits<T>::max);
    const int power = 127 - scale.bits();
    m = {Quantized<T, e8m0>::power_of_two(power / 2), Quantized<T, e8m0>::power_of_two(power - power / 2)};
    return scale;
  }
};
/// An e4m3 scale below an fp32 one of the tensor: encode takes the tensor's amax to 6 * 448.
struct two_level_scale {
  using type = amp::e4m3;
  float encode;
  [[nodiscard]] type of(float amax, multiplier& m) const {
    constexpr float largest = std::numeric_limits<float>::max();
    const auto scale = convert<amp::e4m3>(amax / 6.f * encode, saturating{});
    const float factor = float(scale) == 0.f ? 0.f : encode / float(scale);
    m = {factor > largest ? largest : factor, 1.f};
    return scale;
  }
};

/// Random words of the elements r * columns + c; off: nearest-even.
struct rounding {
  bool stochastic = false;
  std::uint64_t seed = 0, stream = 0;
};

/// One row of blocks: amax, scale and codes of each.
template <class T, class Rule>
struct block_kernel {
  struct args {
    const matrix_view& x;
    Rule rule;
    rounding round;
    Quantized<T, typename Rule::type>& q;
    std::vector<fn::scale_pair>& found;  ///< per row of blocks: amax, and 0 where an element is not finite
  };
  static constexpr std::int64_t buffered = 16384;  ///< elements of the largest block

  template <class V>
  AMP_INLINE static void run(const args& a, std::int64_t block_row) {
    auto& q = a.q;
    const std::int64_t r0 = block_row * q.block_rows, rows = std::min(q.block_rows, q.rows - r0);
    alignas(64) float values[buffered];
    alignas(64) std::uint32_t words[buffered];
    float amax = 0.f;
    bool finite = true;
    for (std::int64_t c0 = 0, b = 0; c0 < q.columns; c0 += q.block_columns, ++b) {
      const std::int64_t n = std::min(q.block_columns, q.columns - c0);
      for (std::int64_t r = 0; r < rows; ++r) {
        apply::decode<V>(a.x.flat(), (r0 + r) * a.x.stride + c0, n, values + r * n);
        if (a.round.stochastic)
          simd::random_words<V>(a.round.seed, a.round.stream, (r0 + r) * q.columns + c0, n, words + r * n);
      }
      const float largest = largest_of<V>(values, rows * n, finite);
      amax = std::max(amax, largest);
      multiplier m;
      q.scales[static_cast<std::size_t>(block_row * q.blocks_in_row() + b)] = a.rule.of(largest, m);
      alignas(64) T codes[buffered];
      put_codes<V>(values, rows * n, m, a.round.stochastic ? words : nullptr, codes);
      for (std::int64_t r = 0; r < rows; ++r) {
        __builtin_memcpy(static_cast<void*>(q.codes.data() + (r0 + r) * q.columns + c0), codes + r * n,
                         static_cast<std::size_t>(n) * sizeof(T));
      }
    }
    a.found[static_cast<std::size_t>(block_row)] = {amax, finite ? 1.f : 0.f};
  }

 private:
  template <class V>
  AMP_INLINE static float largest_of(const float* x, std::int64_t n, bool& finite) {
    using simd::select;
    V acc(0.f);
    nn::for_each_vector<V>(n, [&](std::int64_t i, auto part) AMP_LAMBDA {
      const V v = simd::load<V>(x + i, part);
      const V magnitude = simd::abs(v);
      acc = select(magnitude > acc, magnitude, acc);  // a NaN is not larger
      finite = finite && !simd::any(simd::reaches(v, 0x7f800000));
    });
    alignas(64) float lane[simd::lanes<V>];
    simd::store(lane, acc);
    return *std::max_element(lane, lane + simd::lanes<V>);
  }
  template <class V>
  AMP_INLINE static void put_codes(const float* x, std::int64_t n, const multiplier& m, const std::uint32_t* words,
                                   T* codes) {
    using U = simd::word_of<V>;
    using layout = typename half_traits<T>::layout;
    nn::for_each_vector<V>(n, [&](std::int64_t i, auto part) AMP_LAMBDA {
      const V scaled = m.first * simd::load<V>(x + i, part) * m.second;
      U code = amp::detail::encode<layout, true>(simd::bits_of(scaled));
      if (words != nullptr)  // beyond n the words are of no element, and so are the codes
        code = amp::detail::encode_stochastic<layout, true>(simd::bits_of(scaled), simd::load_words<V>(words + i));
      alignas(64) std::uint32_t wide[simd::lanes<V>];
      __builtin_memcpy(wide, &code, sizeof wide);
      std::int64_t count = simd::lanes<V>;
      if constexpr (std::is_same_v<decltype(part), simd::part>) count = part.count;
      for (std::int64_t k = 0; k < count; ++k) codes[i + k] = T::from_bits(static_cast<std::uint8_t>(wide[k]));
    });
  }
};

/// Quantises in blocks of block_rows x block_columns; the last ones hold what is left.
/// throws  amp::error for a malformed matrix
template <class T, class Rule, exec::HostExecutor E>
[[nodiscard]] Quantized<T, typename Rule::type> quantize_blocks(const E& executor, const matrix_view& x,
                                                                std::int64_t block_rows, std::int64_t block_columns,
                                                                const Rule& rule, rounding round = {},
                                                                where at = where::here()) {
  expects_matrix(x, x.rows, x.columns, "the matrix to quantise", false, at);
  using kernel = block_kernel<T, Rule>;
  expects(block_rows > 0 && block_columns > 0 && block_rows * block_columns <= kernel::buffered,
          "a block has 1 to 16384 elements", at);
  Quantized<T, typename Rule::type> q;
  q.rows = x.rows, q.columns = x.columns, q.block_rows = block_rows, q.block_columns = block_columns;
  const std::int64_t block_count = x.rows == 0 ? 0 : (x.rows - 1) / block_rows + 1;
  q.codes.resize(static_cast<std::size_t>(x.rows * x.columns));
  q.scales.resize(static_cast<std::size_t>(block_count * q.blocks_in_row()));
  std::vector<fn::scale_pair> found(static_cast<std::size_t>(block_count));
  nn::run_items<kernel>(executor, block_count, x.rows * x.columns, typename kernel::args{x, rule, round, q, found});
  for (const auto& [amax, finite] : found) {
    q.amax = std::max(q.amax, amax);
    q.finite = q.finite && finite != 0.f;
  }
  return q;
}

/// One scale for the whole matrix: codes are saturate(x * scale), values code * inverse. The result's amax is that of
/// x.
/// throws  amp::error for a malformed matrix
template <class T, exec::HostExecutor E>
[[nodiscard]] Quantized<T, float> quantize_tensor(const E& executor, const matrix_view& x, fn::scale_pair scale,
                                                  where at = where::here()) {
  auto q = quantize_blocks<T>(executor, x, 1, 4096, fixed_scale{scale.scale, scale.inverse}, {}, at);
  q.block_rows = std::max<std::int64_t>(1, q.rows), q.block_columns = std::max<std::int64_t>(1, q.columns);
  q.scales.assign(q.rows * q.columns > 0 ? 1 : 0, scale.inverse);
  return q;
}

}  // namespace amp::fp8
