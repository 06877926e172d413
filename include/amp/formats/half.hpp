/// fp16: 1 sign, 5 exponent and 10 mantissa bits (IEEE 754 binary16).
#pragma once
#include <amp/formats/layout.hpp>
#include <amp/formats/low_float.hpp>
#include <limits>
#include <string_view>
#include <type_traits>

namespace amp {

/// A 16-bit float.
class half : public detail::low_float<half, detail::half_layout> {
 public:
  using low_float::low_float;
};
static_assert(sizeof(half) == 2 && alignof(half) == 2 && std::is_trivially_copyable_v<half> &&
              std::is_standard_layout_v<half>);

namespace literals {
/// `1.5_h`: rounded once, from a double.
consteval half operator""_h(long double value) noexcept { return half(static_cast<double>(value)); }
consteval half operator""_h(unsigned long long value) noexcept { return half(value); }
}  // namespace literals

}  // namespace amp

template <>
class std::numeric_limits<amp::half> : public amp::detail::low_limits<amp::half> {};
template <>
struct std::hash<amp::half> : amp::detail::low_hash<amp::half> {};
