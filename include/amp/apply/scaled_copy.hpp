/// A lane whose result is also stored in an 8-bit format with a scale: fp8 parameters beside their masters.
#pragma once
#include <algorithm>
#include <amp/apply/engine.hpp>
#include <amp/apply/fold.hpp>
#include <amp/apply/lanes.hpp>
#include <amp/core/config.hpp>
#include <amp/half_traits.hpp>
#include <amp/simd/load.hpp>
#include <amp/simd/math.hpp>
#include <amp/simd/target.hpp>
#include <amp/tensor/list.hpp>
#include <atomic>
#include <cstdint>
#include <span>

namespace amp {

/// What a scaled copy is stored with, per tensor. A tensor without elements, or without a copy, leaves it as it is.
struct scaled_copy {
  float scale = 1.f;    ///< the copy holds round(x * scale), saturated
  float inverse = 1.f;  ///< written: 1 / scale, for who reads the copy; subnormal where it has to be
  float amax = 0.f;     ///< raised to the largest |x| that was stored; NaN if one was NaN. The caller clears it.
};

namespace apply {

/// 1 / scale in one rounding, also where it is subnormal and the thread flushes.
[[nodiscard]] AMP_HD constexpr float reciprocal_of_scale(float scale) {
  if (scale <= 0x1p126f) return 1.f / scale;
  const double units = 1.0 / static_cast<double>(scale) * 0x1p149;  // a double is normal here; below 2^23 units
  return __builtin_bit_cast(float, static_cast<std::uint32_t>((units + 0x1p52) - 0x1p52));
}

/// The larger of two magnitudes, a NaN being the largest: as bits they are ordered.
inline void raise_to(float& largest, float value) noexcept {
  std::atomic_ref<float> shared(largest);
  float seen = shared.load(std::memory_order_relaxed);
  while (__builtin_bit_cast(std::uint32_t, value) > __builtin_bit_cast(std::uint32_t, seen) &&
         !shared.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

/// to = x * scale within [-limit, limit], and the largest |x|; n <= scratch_elements.
struct scaled_copy_kernel {
  template <class V>
  AMP_INLINE static void run(const float* x, std::int64_t n, float scale, float limit, float* to, float* largest) {
    alignas(64) float acc[16] = {};
    constexpr int width = simd::lanes<V>;
    const auto step = [&](std::int64_t i, auto part) AMP_LAMBDA {
      using simd::abs;
      using simd::max;
      using simd::min;
      const V value = simd::load<V>(x + i, part);
      simd::store(to + i, min(max(scale * value, V(-limit)), V(limit)), part);
      simd::store(acc, maximum::join(simd::load<V>(acc), abs(value)));
    };
    std::int64_t i = 0;
    for (; i + width <= n; i += width) step(i, simd::full{});
    if constexpr (width > 1) {
      if (i < n) step(i, simd::part{static_cast<int>(n - i)});
    }
    *largest = acc[0];
    for (int k = 1; k < 16; ++k) *largest = maximum::join(*largest, acc[k]);
  }
};

}  // namespace apply

namespace lane {

/// Reads and writes a list (fp32 masters), and stores round(x * scale) in an 8-bit list; the largest |x| is collected.
struct inout_scaled_copy_lane {
  tensor_list list;
  tensor_list copies_list;
  std::span<scaled_copy> infos;

  static constexpr bool reads = true, writes = true, copies = true, checked = false;

  [[nodiscard]] AMP_INLINE const tensor_view& tensor(std::int64_t t) const { return list[static_cast<std::size_t>(t)]; }
  [[nodiscard]] AMP_INLINE const tensor_view& copy(std::int64_t t) const {
    return copies_list[static_cast<std::size_t>(t)];
  }
  template <class, class, class>
  [[nodiscard]] AMP_INLINE bool matches(std::int64_t) const {
    return false;
  }
  template <class V, class, class, class>
  [[nodiscard]] AMP_INLINE auto bind(std::int64_t, std::int64_t) const {
    return bind_floats<V>(0, nullptr);
  }
  template <class V>
  [[nodiscard]] AMP_INLINE auto bind_floats(std::int64_t, float* p) const {
    return ref::inout<V, float, none>{p, nullptr};
  }
  template <class V>
  [[nodiscard]] float* stage(std::int64_t t, std::int64_t offset, std::int64_t n, float* buffer) const {
    if (tensor(t).type == dtype::fp32) return static_cast<float*>(tensor(t).data) + offset;
    apply::decode<V>(tensor(t), offset, n, buffer);
    return buffer;
  }
  template <class V>
  void unstage(std::int64_t t, std::int64_t offset, std::int64_t n, const float* values) const {
    if (tensor(t).type != dtype::fp32) apply::encode<V>(values, n, tensor(t), offset);
    if (copy(t).data == nullptr) return;
    scaled_copy& info = infos[static_cast<std::size_t>(t)];
    if (offset == 0) info.inverse = apply::reciprocal_of_scale(info.scale);
    const float limit = visit(copy(t).type, []<class T>(std::type_identity<T>) { return half_traits<T>::max; });
    alignas(64) float scaled[apply::scratch_elements];
    float largest = 0.f;
    simd::call_kernel<V, apply::scaled_copy_kernel, const float*, std::int64_t, float, float, float*, float*>(
        values, n, info.scale, limit, scaled, &largest);
    apply::encode<V>(scaled, n, copy(t), offset);
    apply::raise_to(info.amax, largest);
  }
};

/// `copies`: a list of 8-bit tensors, entries with null data have none; `infos`: one entry per tensor.
/// throws  amp::error if there are fewer infos than tensors
[[nodiscard]] inline inout_scaled_copy_lane inout_with_scaled_copy(tensor_list masters, tensor_list copies,
                                                                   std::span<scaled_copy> infos,
                                                                   where at = where::here()) {
  expects(infos.size() >= masters.size(), "inout_with_scaled_copy needs a scaled_copy per tensor", at);
  return {masters, copies, infos};
}

}  // namespace lane
}  // namespace amp
