/// The 4-bit float e2m1 (OCP): 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.
#pragma once
#include <amp/formats/layout.hpp>
#include <amp/formats/low_float.hpp>
#include <limits>
#include <string_view>
#include <type_traits>

namespace amp {

/// A value in the lower four bits of a byte; memory holds two of them per byte (pack). No infinity, no NaN: what lies
/// beyond the range becomes +-6, and a NaN +6.
class e2m1 : public detail::low_float<e2m1, detail::e2m1_layout> {
 public:
  using low_float::low_float;
};
static_assert(sizeof(e2m1) == 1 && alignof(e2m1) == 1 && std::is_trivially_copyable_v<e2m1> &&
              std::is_standard_layout_v<e2m1>);

/// Two values in a byte, the first in the lower half.
[[nodiscard]] AMP_HD constexpr std::uint8_t pack(e2m1 first, e2m1 second) noexcept {
  return static_cast<std::uint8_t>((first.bits() & 15u) | ((second.bits() & 15u) << 4));
}
struct e2m1_pair {
  e2m1 first, second;
};
[[nodiscard]] AMP_HD constexpr e2m1_pair unpack(std::uint8_t byte) noexcept {
  return {e2m1::from_bits(static_cast<std::uint8_t>(byte & 15u)),
          e2m1::from_bits(static_cast<std::uint8_t>(byte >> 4))};
}

}  // namespace amp

template <>
class std::numeric_limits<amp::e2m1> : public amp::detail::low_limits<amp::e2m1> {};
template <>
struct std::hash<amp::e2m1> : amp::detail::low_hash<amp::e2m1> {};
