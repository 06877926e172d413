/// What a session can tell of gradients that do not fit their format.
#pragma once
#include <amp/half_traits.hpp>
#include <amp/tensor/view.hpp>
#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>

namespace amp {

/// Elements of one parameter's gradient that are not finite.
struct overflow_count {
  std::string name;
  std::int64_t inf = 0, nan = 0;
  friend bool operator==(const overflow_count&, const overflow_count&) = default;
};

/// A sample of one parameter's gradient: elements that are zero, and subnormal ones, whose low bits are lost.
struct underflow_count {
  std::string name;
  std::int64_t sampled = 0, zero = 0, subnormal = 0;
  /// Share of the sample that is zero or subnormal; 0 for an empty one.
  [[nodiscard]] double share() const noexcept {
    return sampled == 0 ? 0. : static_cast<double>(zero + subnormal) / static_cast<double>(sampled);
  }
  friend bool operator==(const underflow_count&, const underflow_count&) = default;
};

namespace detail {
/// Calls `f(value)` for each `stride`-th element, widened.
template <class F>
void for_each_value(const tensor_view& t, std::int64_t stride, F&& f) {
  visit(t.type, [&]<class T>(std::type_identity<T>) {
    const auto* p = static_cast<const T*>(t.data);
    for (std::int64_t i = 0; i < t.size; i += stride) f(static_cast<float>(p[i]), half_traits<T>::min_normal);
  });
}
[[nodiscard]] inline underflow_count count_underflow(const tensor_view& t, std::int64_t stride) {
  underflow_count found{std::string(t.name)};
  for_each_value(t, stride, [&](float x, float min_normal) {
    const float magnitude = std::fabs(x);
    ++found.sampled;
    found.zero += magnitude == 0.f ? 1 : 0;
    found.subnormal += magnitude > 0.f && magnitude < min_normal ? 1 : 0;
  });
  return found;
}
}  // namespace detail

}  // namespace amp
