/// The 8-bit floats: e4m3 and e5m2 (OCP), and their variants without negative zero (fnuz).
#pragma once
#include <amp/formats/layout.hpp>
#include <amp/formats/low_float.hpp>
#include <limits>
#include <string_view>
#include <type_traits>

namespace amp {

/// 1 sign, 4 exponent and 3 mantissa bits; up to 448, no infinity, one NaN magnitude (0x7f). Also called e4m3fn.
class e4m3 : public detail::low_float<e4m3, detail::e4m3_layout> {
 public:
  using low_float::low_float;
};
static_assert(sizeof(e4m3) == 1 && alignof(e4m3) == 1 && std::is_trivially_copyable_v<e4m3> &&
              std::is_standard_layout_v<e4m3>);
using e4m3fn = e4m3;

/// 1 sign, 5 exponent and 2 mantissa bits; fp16's range up to 57344, infinity and NaNs as in fp16.
class e5m2 : public detail::low_float<e5m2, detail::e5m2_layout> {
 public:
  using low_float::low_float;
};
static_assert(sizeof(e5m2) == 1 && alignof(e5m2) == 1 && std::is_trivially_copyable_v<e5m2> &&
              std::is_standard_layout_v<e5m2>);

/// e4m3 with exponents one lower, up to 240; neither infinity nor -0, whose pattern is the only NaN.
class e4m3fnuz : public detail::low_float<e4m3fnuz, detail::e4m3fnuz_layout> {
 public:
  using low_float::low_float;
};
static_assert(sizeof(e4m3fnuz) == 1 && alignof(e4m3fnuz) == 1 && std::is_trivially_copyable_v<e4m3fnuz> &&
              std::is_standard_layout_v<e4m3fnuz>);

/// e5m2 with exponents one lower, up to 57344; neither infinity nor -0, whose pattern is the only NaN.
class e5m2fnuz : public detail::low_float<e5m2fnuz, detail::e5m2fnuz_layout> {
 public:
  using low_float::low_float;
};
static_assert(sizeof(e5m2fnuz) == 1 && alignof(e5m2fnuz) == 1 && std::is_trivially_copyable_v<e5m2fnuz> &&
              std::is_standard_layout_v<e5m2fnuz>);

}  // namespace amp

template <>
class std::numeric_limits<amp::e4m3> : public amp::detail::low_limits<amp::e4m3> {};
template <>
struct std::hash<amp::e4m3> : amp::detail::low_hash<amp::e4m3> {};
template <>
class std::numeric_limits<amp::e5m2> : public amp::detail::low_limits<amp::e5m2> {};
template <>
struct std::hash<amp::e5m2> : amp::detail::low_hash<amp::e5m2> {};
template <>
class std::numeric_limits<amp::e4m3fnuz> : public amp::detail::low_limits<amp::e4m3fnuz> {};
template <>
struct std::hash<amp::e4m3fnuz> : amp::detail::low_hash<amp::e4m3fnuz> {};
template <>
class std::numeric_limits<amp::e5m2fnuz> : public amp::detail::low_limits<amp::e5m2fnuz> {};
template <>
struct std::hash<amp::e5m2fnuz> : amp::detail::low_hash<amp::e5m2fnuz> {};
