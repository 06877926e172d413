/// How a list is stored that is no plain list of floats: scales, random rounding, and a pass that only measures.
#pragma once
#include <algorithm>
#include <amp/apply/engine.hpp>
#include <amp/apply/stored_kernels.hpp>
#include <amp/core/config.hpp>
#include <amp/half_traits.hpp>
#include <amp/tensor/view.hpp>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <span>
#include <type_traits>

namespace amp {

namespace lane {

/// What a pass does with the results of the functor.
enum class pass : std::uint8_t {
  store,    ///< keeps them
  measure,  ///< keeps the peaks only, from which come the scales of the storing pass
  read      ///< drops them
};

/// The scales of a stored list: a value is its scale times what is stored.
struct scale_list {
  std::span<float* const> present;  ///< per tensor: where its scale lies, or its scales; empty: unscaled
  std::span<const float> next;      ///< per tensor: the scale to store with, if the tensor has one
  std::span<std::uint32_t> peak;    ///< per tensor: bits of the largest magnitude, gathered by a measuring pass
  std::int64_t block = 0;           ///< elements per scale; 0: one scale for the tensor
  bool root = false;                ///< what is stored is the root: for values that are sums of squares

  [[nodiscard]] bool empty() const noexcept { return present.empty(); }
};

/// The source of random bits: a stream per tensor, an element's bits depend on its index alone.
struct draw_list {
  std::uint64_t seed = 0;
  std::span<const std::uint64_t> stream;  ///< per tensor; empty: round to nearest
};

}  // namespace lane

namespace apply {

/// Elements per scale where a tensor has several. Pieces begin at multiples of it (`stored_chunk`).
inline constexpr std::int64_t scale_block = 256;
static_assert(scratch_elements % scale_block == 0 && scratch_elements % 64 == 0);
/// A chunk size that stored lanes can be cut at.
[[nodiscard]] constexpr std::int64_t stored_chunk(std::int64_t wanted) noexcept {
  return wanted < 1 ? wanted : (wanted + scratch_elements - 1) / scratch_elements * scratch_elements;
}

/// The largest stored magnitude: half of fp16's range, all of an 8-bit format's.
/// source  Transformer Engine, FusedAdam
[[nodiscard]] inline float stored_range(dtype type) {
  return visit(type,
               []<class T>(std::type_identity<T>) { return sizeof(T) == 1 ? half_traits<T>::max : 65504.f / 2.f; });
}
/// The scale that brings a peak to the range; 1 for a tensor of zeros, and where an element is not finite.
[[nodiscard]] inline float scale_of_peak(std::uint32_t peak, float range, bool root) noexcept {
  if (peak == 0 || peak >= 0x7f800000u) return 1.f;
  const float largest = __builtin_bit_cast(float, peak);
  return std::max((root ? std::sqrt(largest) : largest) / range, 0x1p-126f);
}

/// Largest of what several threads found; the order plays no part.
inline void raise_to(std::uint32_t& highest, std::uint32_t value) noexcept {
  const std::atomic_ref<std::uint32_t> shared(highest);
  for (auto seen = shared.load(std::memory_order_relaxed);
       value > seen && !shared.compare_exchange_weak(seen, value, std::memory_order_relaxed);) {
  }
}

/// Decodes n elements and applies their scales, the present or the next one.
template <class V>
void load_stored(const tensor_view& tensor, const lane::scale_list& scales, std::int64_t t, std::int64_t offset,
                 std::int64_t n, float* to, bool next = false) {
  if (scales.empty()) return decode<V>(tensor, offset, n, to);
  const auto index = static_cast<std::size_t>(t);
  const float* scale = next ? &scales.next[index] : scales.present[index];
  const std::int64_t length = scales.block == 0 ? n : scales.block;
  if (scales.block != 0) scale += offset / scales.block;
  const bool direct = tensor.type == dtype::e4m3;  // the frequent one: decoded and scaled at once
  if (!direct) decode<V>(tensor, offset, n, to);
  for (std::int64_t done = 0; done < n; done += length, ++scale) {
    const std::int64_t count = std::min(length, n - done);
    if (direct) {
      simd::call_kernel<V, multiply_scale<e4m3>, const e4m3*>(static_cast<const e4m3*>(tensor.data) + offset + done,
                                                              count, *scale, scales.root, to + done);
    } else {
      simd::call_kernel<V, multiply_scale<float>, const float*>(to + done, count, *scale, scales.root, to + done);
    }
  }
}
template <class V>
[[nodiscard]] std::uint32_t peak_of(const float* values, std::int64_t n) {
  std::uint32_t peak = 0;
  simd::call_kernel<V, find_peak, const float*, std::int64_t, std::uint32_t*>(values, n, &peak);
  return peak;
}
template <class V>
void measure(const float* values, std::int64_t n, const lane::scale_list& scales, lane::pass work, std::int64_t t) {
  if (work == lane::pass::measure && !scales.empty() && scales.block == 0)
    raise_to(scales.peak[static_cast<std::size_t>(t)], peak_of<V>(values, n));
}
/// The formats that random rounding serves.
[[nodiscard]] constexpr bool rounds_at_random(dtype t) noexcept {
  return t == dtype::fp16 || t == dtype::bf16 || t == dtype::e4m3;
}
/// Rounds to the format, to nearest or, where there are draws, up or down at random.
template <class V>
void encode_stored(const float* values, std::int64_t n, const tensor_view& tensor, const lane::draw_list& draws,
                   std::int64_t t, std::int64_t offset) {
  if (draws.stream.empty() || !rounds_at_random(tensor.type)) return encode<V>(values, n, tensor, offset);
  alignas(64) std::uint32_t words[scratch_elements + 64];
  simd::call_kernel<V, draw_words, std::uint64_t, std::uint64_t, std::int64_t, std::int64_t, std::uint32_t*>(
      draws.seed, draws.stream[static_cast<std::size_t>(t)], offset, n, words);
  visit(tensor.type, [&]<class T>(std::type_identity<T>) {
    if constexpr (rounds_at_random(half_traits<T>::id)) {
      simd::call_kernel<V, encode_random<T>, const float*, const std::uint32_t*, std::int64_t, T*>(
          values, words, n, static_cast<T*>(tensor.data) + offset);
    }
  });
}
/// Divides by the scales, which a list with blocks finds here, and rounds into the format.
template <class V>
void store_stored(const float* values, std::int64_t n, const tensor_view& tensor, const lane::scale_list& scales,
                  const lane::draw_list& draws, std::int64_t t, std::int64_t offset) {
  if (scales.empty()) return encode_stored<V>(values, n, tensor, draws, t, offset);
  alignas(64) float quotients[scratch_elements];
  const float least = visit(tensor.type, []<class T>(std::type_identity<T>) { return half_traits<T>::denorm_min; });
  const bool direct = tensor.type == dtype::e4m3 && draws.stream.empty();
  const std::int64_t length = scales.block == 0 ? n : scales.block;
  for (std::int64_t done = 0; done < n; done += length) {
    const std::int64_t count = std::min(length, n - done);
    float scale;
    if (scales.block == 0) {
      scale = scales.next[static_cast<std::size_t>(t)];
    } else {
      scale = scale_of_peak(peak_of<V>(values + done, count), stored_range(tensor.type), scales.root);
      scales.present[static_cast<std::size_t>(t)][(offset + done) / scales.block] = scale;
    }
    if (direct) {
      simd::call_kernel<V, divide_scale<e4m3>, const float*, std::int64_t, float, float, bool, e4m3*>(
          values + done, count, scale, least, scales.root, static_cast<e4m3*>(tensor.data) + offset + done);
    } else {
      simd::call_kernel<V, divide_scale<float>, const float*, std::int64_t, float, float, bool, float*>(
          values + done, count, scale, least, scales.root, quotients + done);
    }
  }
  if (!direct) encode_stored<V>(quotients, n, tensor, draws, t, offset);
}

}  // namespace apply

}  // namespace amp
