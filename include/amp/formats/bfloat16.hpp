/// bf16: the upper half of an fp32: 1 sign, 8 exponent and 7 mantissa bits.
#pragma once
#include <amp/formats/layout.hpp>
#include <amp/formats/low_float.hpp>
#include <limits>
#include <string_view>
#include <type_traits>

namespace amp {

/// A 16-bit float with fp32's exponent range.
class bfloat16 : public detail::low_float<bfloat16, detail::bfloat16_layout> {
 public:
  using low_float::low_float;
};
static_assert(sizeof(bfloat16) == 2 && alignof(bfloat16) == 2 && std::is_trivially_copyable_v<bfloat16> &&
              std::is_standard_layout_v<bfloat16>);

namespace literals {
/// `1.5_bf16`: rounded once, from a double.
consteval bfloat16 operator""_bf16(long double value) noexcept { return bfloat16(static_cast<double>(value)); }
consteval bfloat16 operator""_bf16(unsigned long long value) noexcept { return bfloat16(value); }
}  // namespace literals

}  // namespace amp

template <>
class std::numeric_limits<amp::bfloat16> : public amp::detail::low_limits<amp::bfloat16> {};
template <>
struct std::hash<amp::bfloat16> : amp::detail::low_hash<amp::bfloat16> {};
