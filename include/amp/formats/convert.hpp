/// Conversions between formats with the rounding as a policy.
#pragma once
#include <amp/core/config.hpp>
#include <amp/formats/bfloat16.hpp>
#include <amp/formats/half.hpp>
#include <concepts>
#include <type_traits>

namespace amp {

/// Round to nearest, ties to even; overflow gives infinity, a NaN stays a NaN, subnormals are kept whatever FTZ/DAZ
/// says.
struct nearest_even {
  template <class To, class From>
  AMP_HD static constexpr To round(From value) noexcept {
    if constexpr (std::same_as<To, From>) {
      return value;
    } else if constexpr (std::is_arithmetic_v<From>) {
      return static_cast<To>(value);
    } else {
      return static_cast<To>(static_cast<float>(value));  // exact, so one rounding in all
    }
  }
};

/// Converts one value: `convert<half>(x)`, from fp32, fp64, an integer or another format, with one rounding.
template <class To, class Rounding = nearest_even, class From>
[[nodiscard]] AMP_HD constexpr To convert(From value, Rounding = {}) noexcept {
  return Rounding::template round<To>(value);
}

}  // namespace amp
