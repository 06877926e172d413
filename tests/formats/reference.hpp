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

template <class T>
bool is_nan_pattern(T x) {
  using traits = amp::half_traits<T>;
  return (x.bits() & ((1u << (traits::exponent_bits + traits::mantissa_bits)) - 1u)) >
         (((1u << traits::exponent_bits) - 1u) << traits::mantissa_bits);
}

}  // namespace test_formats
