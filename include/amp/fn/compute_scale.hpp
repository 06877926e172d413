/// From the largest magnitude of a tensor to the scale of an 8-bit or 4-bit copy of it, for one and over lists.
#pragma once
#include <amp/apply/exec.hpp>
#include <amp/apply/fold.hpp>
#include <amp/apply/scaled_copy.hpp>
#include <amp/core/check.hpp>
#include <amp/core/config.hpp>
#include <amp/formats/e8m0.hpp>
#include <amp/multi_tensor_apply.hpp>
#include <amp/simd/math.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace amp::fn {

struct scale_rule {
  float eps = 0.f;            ///< a smaller amax counts as this
  bool power_of_two = false;  ///< cut the mantissa: the scale gets smaller, never larger
};
struct scale_pair {
  float scale = 1.f;    ///< stored = saturate(value * scale)
  float inverse = 1.f;  ///< value = stored * inverse
};

using apply::reciprocal_of_scale;

/// The scale that takes `amax` to `max_format`, the largest number of the format: one division. An amax of 0, infinity
/// or NaN gives 1; a scale beyond fp32 becomes fp32's largest number.
/// source  Transformer Engine, compute_scale_from_amax
[[nodiscard]] AMP_HD constexpr scale_pair scale_of_amax(float amax, float max_format, scale_rule rule = {}) {
  if (amax < rule.eps) amax = rule.eps;
  const auto bits = __builtin_bit_cast(std::uint32_t, amax);
  if (bits == 0 || bits >= 0x7f800000u) return {};
  constexpr float largest = std::numeric_limits<float>::max();
  float scale = largest;
  if (bits >= 0x00800000u && amax > max_format / largest) scale = max_format / amax;
  if (rule.power_of_two) scale = __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, scale) & 0x7f800000u);
  return {scale, reciprocal_of_scale(scale)};
}

/// amax / max_format rounded up to a power of two: the values divided by it fit the format.
[[nodiscard]] AMP_HD constexpr e8m0 e8m0_of_amax(float amax, float max_format) {
  return e8m0(static_cast<double>(amax) / static_cast<double>(max_format));
}

namespace detail {
inline void check_scales(std::size_t list, std::size_t t, const tensor_view& tensor, std::int64_t size, bool written,
                         where at) {
  expects(
      tensor.size == size && tensor.type == dtype::fp32 && !(written && tensor.readonly) &&
          (tensor.data != nullptr || size == 0),
      [&] {
        return "compute_scale: " + amp::detail::label(static_cast<std::int64_t>(list), t, tensor) + " must be " +
               std::to_string(size) + (written ? " writable" : "") + " fp32 elements, as many as list 0 has";
      },
      at);
}
}  // namespace detail

/// scale and inverse of every amax of a list, a task per tensor. Lists: 0 amax, 1 scale, 2 inverse; fp32, of equal
/// sizes.
/// throws  amp::error naming list and tensor, before anything is written
template <exec::HostExecutor E>
void compute_scale(const E& executor, tensor_list amax, tensor_list scale, tensor_list inverse, float max_format,
                   scale_rule rule = {}, where at = where::here()) {
  expects(amax.size() == scale.size() && amax.size() == inverse.size(),
          "compute_scale: the lists of amax, scale and inverse differ in length", at);
  for (std::size_t t = 0; t < amax.size(); ++t) {
    const std::int64_t size = amax[t].size;
    detail::check_scales(0, t, amax[t], size, false, at);
    detail::check_scales(1, t, scale[t], size, true, at);
    detail::check_scales(2, t, inverse[t], size, true, at);
  }
  const auto one = [&](std::int64_t tensor) {
    const auto t = static_cast<std::size_t>(tensor);
    for (std::int64_t i = 0; i < amax[t].size; ++i) {
      const scale_pair pair = scale_of_amax(static_cast<const float*>(amax[t].data)[i], max_format, rule);
      static_cast<float*>(scale[t].data)[i] = pair.scale;
      static_cast<float*>(inverse[t].data)[i] = pair.inverse;
    }
  };
  executor.run(static_cast<std::int64_t>(amax.size()), total_size(amax), apply::task_ref(one));
}
inline void compute_scale(tensor_list amax, tensor_list scale, tensor_list inverse, float max_format,
                          scale_rule rule = {}, where at = where::here()) {
  compute_scale(exec::scalar{}, amax, scale, inverse, max_format, rule, at);
}

/// The e8m0 scale of every amax of a list, a task per tensor.
/// throws  amp::error naming list and tensor, before anything is written
template <exec::HostExecutor E>
void compute_e8m0(const E& executor, tensor_list amax, std::span<const std::span<e8m0>> scales, float max_format,
                  where at = where::here()) {
  expects(amax.size() == scales.size(), "compute_e8m0: the lists of amax and scales differ in length", at);
  for (std::size_t t = 0; t < amax.size(); ++t)
    detail::check_scales(0, t, amax[t], static_cast<std::int64_t>(scales[t].size()), false, at);
  const auto one = [&](std::int64_t tensor) {
    const auto t = static_cast<std::size_t>(tensor);
    for (std::size_t i = 0; i < scales[t].size(); ++i)
      scales[t][i] = e8m0_of_amax(static_cast<const float*>(amax[t].data)[i], max_format);
  };
  executor.run(static_cast<std::int64_t>(amax.size()), total_size(amax), apply::task_ref(one));
}
inline void compute_e8m0(tensor_list amax, std::span<const std::span<e8m0>> scales, float max_format,
                         where at = where::here()) {
  compute_e8m0(exec::scalar{}, amax, scales, max_format, at);
}

struct amax_result {
  std::vector<float> per_tensor;      ///< largest magnitude, infinities included, NaN elements not; 0 for no elements
  bool finite = true;                 ///< no element is infinite or NaN
  std::int64_t first_nonfinite = -1;  ///< index of the first tensor with such an element
};

/// The magnitude, where NaN counts as 0; and 1 for an element that is not finite.
struct MagnitudeAndFlag {
  template <class V>
  AMP_HD AMP_INLINE void operator()(V (&value)[2], const V& x) const {
    using simd::abs;
    using simd::isfinite;
    using simd::select;
    value[0] = select(x == x, abs(x), V(0.f));
    value[1] = select(isfinite(x), V(0.f), V(1.f));
  }
};

/// Largest magnitudes of the tensors of a read lane, in one pass with the check for non-finite elements.
/// throws  amp::error for a malformed list
template <class E, lane::Lane L>
[[nodiscard]] amax_result amax(const E& executor, const L& lane, where at = where::here()) {
  amp::detail::check_lanes(at, lane);
  const auto folded = apply::fold<2>(executor, apply::maximum{}, MagnitudeAndFlag{}, lane);
  amax_result result;
  for (std::size_t t = 0; t < folded[0].per_tensor.size(); ++t) {
    result.per_tensor.push_back(static_cast<float>(folded[0].per_tensor[t]));
    if (folded[1].per_tensor[t] != 0 && result.finite) {
      result.finite = false;
      result.first_nonfinite = static_cast<std::int64_t>(t);
    }
  }
  return result;
}
template <class E>
[[nodiscard]] amax_result amax(const E& executor, tensor_list list, where at = where::here()) {
  return amax(executor, lane::in(list), at);
}

}  // namespace amp::fn
