/// Rounding to a narrow format by double arithmetic, and the float inputs that matter: nothing in common with the code
/// under test.
#pragma once
#include <amp/half_traits.hpp>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace test_formats {

/// The value that x rounds to, nearest-even; infinite above the format's range. Needs FTZ/DAZ off.
template <class T>
double rounded(double x) {
  using traits = amp::half_traits<T>;
  if (std::isnan(x) || std::isinf(x) || x == 0) return x;
  const int lowest = 1 - traits::bias;
  const int exponent = std::max(std::ilogb(x), lowest);
  const double ulp = std::ldexp(1.0, exponent - traits::mantissa_bits);
  const double y = std::nearbyint(x / ulp) * ulp;
  return std::abs(y) > static_cast<double>(traits::max) ? std::copysign(std::numeric_limits<double>::infinity(), x) : y;
}

/// All upper halves of a float, each with lower halves around every place where a narrow format cuts and ties.
inline std::vector<float> structured_floats() {
  std::vector<float> all;
  for (std::uint32_t upper = 0; upper < 0x10000u; ++upper) {
    for (const std::uint32_t lower : {0x0000u, 0x0001u, 0x0fffu, 0x1000u, 0x1001u, 0x1fffu, 0x2000u, 0x2fffu, 0x3000u,
                                      0x3001u, 0x7fffu, 0x8000u, 0x8001u, 0xefffu, 0xf000u, 0xf001u, 0xffffu}) {
      all.push_back(std::bit_cast<float>((upper << 16) | lower));
    }
  }
  return all;
}

/// NaN by its pattern, from the definition of each format.
inline bool is_nan_pattern(amp::e4m3 x) { return (x.bits() & 0x7fu) == 0x7fu; }
inline bool is_nan_pattern(amp::e4m3fnuz x) { return x.bits() == 0x80u; }
inline bool is_nan_pattern(amp::e5m2fnuz x) { return x.bits() == 0x80u; }
inline bool is_nan_pattern(amp::e2m1) { return false; }
template <class T>
bool is_nan_pattern(T x) {
  using traits = amp::half_traits<T>;
  return (x.bits() & ((1u << (traits::exponent_bits + traits::mantissa_bits)) - 1u)) >
         (((1u << traits::exponent_bits) - 1u) << traits::mantissa_bits);
}

/// The finite value of a pattern, from the definition of the formats: sign, E exponent bits, M mantissa bits.
template <class T>
double value_of(unsigned pattern) {
  using traits = amp::half_traits<T>;
  constexpr int M = traits::mantissa_bits;
  const int exponent = static_cast<int>((pattern >> M) & ((1u << traits::exponent_bits) - 1u));
  const unsigned fraction = pattern & ((1u << M) - 1u);
  const double sign = (pattern >> (traits::exponent_bits + M)) != 0 ? -1 : 1;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - traits::bias - M);
  return sign * std::ldexp(fraction + (1u << M), exponent - traits::bias - M);
}

}  // namespace test_formats
