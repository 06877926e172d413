/// Conversions between formats with rounding and overflow as policies.
#pragma once
#include <amp/core/config.hpp>
#include <amp/core/philox.hpp>
#include <amp/formats/bfloat16.hpp>
#include <amp/formats/e8m0.hpp>
#include <amp/formats/fp4.hpp>
#include <amp/formats/fp8.hpp>
#include <amp/formats/half.hpp>
#include <amp/formats/round.hpp>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace amp {

namespace detail {
template <class T>
concept LowFloat = requires {
  typename T::layout;
};

/// One rounding of any number to a low float: doubles and integers from their exact value, others through fp32,
/// exactly.
template <LowFloat To, bool Saturate, class From>
AMP_HD constexpr To rounded(From value) noexcept {
  using L = typename To::layout;
  std::uint32_t bits = 0;
  if constexpr (std::same_as<From, double>) {
    bits = round_from_double<L, Saturate>(value);
  } else if constexpr (std::integral<From>) {
    bits = round_from_integer<L, Saturate>(value);
  } else {
    bits = encode<L, Saturate>(__builtin_bit_cast(std::uint32_t, static_cast<float>(value)));
  }
  return To::from_bits(static_cast<typename To::storage_type>(bits));
}
template <class To, bool Saturate, class From>
AMP_HD constexpr To rounded_stochastically(From value, std::uint32_t random) noexcept {
  static_assert(LowFloat<To>, "amp: stochastic rounding goes to a format narrower than fp32");
  using L = typename To::layout;
  std::uint32_t bits = 0;
  if constexpr (std::same_as<From, double>) {
    bits = round_from_double<L, Saturate>(value, round_stochastic{random});
  } else if constexpr (std::integral<From>) {
    bits = round_from_integer<L, Saturate>(value, round_stochastic{random});
  } else {
    bits = encode_stochastic<L, Saturate>(__builtin_bit_cast(std::uint32_t, static_cast<float>(value)), random);
  }
  return To::from_bits(static_cast<typename To::storage_type>(bits));
}
}  // namespace detail

namespace detail {
/// An integer's magnitude to a power of two, up or to the nearest (a value in the middle upwards), from its exact
/// value.
template <std::integral I>
AMP_HD constexpr e8m0 power_of_integer(I value, bool up) noexcept {
  const auto wide = static_cast<std::uint64_t>(value);
  const std::uint64_t magnitude = std::signed_integral<I> && value < 0 ? 0 - wide : wide;
  if (magnitude == 0) return e8m0::from_bits(0);
  const int place = highest_bit(magnitude);
  const std::uint64_t power = std::uint64_t{1} << place, rest = magnitude - power;
  const bool next = up ? rest != 0 : rest >= power - rest && rest != 0;
  return e8m0::from_bits(static_cast<std::uint8_t>(127 + place + (next ? 1 : 0)));
}
}  // namespace detail

/// To nearest, ties to even; overflow gives infinity (NaN in formats without), a NaN stays a NaN, subnormals are kept
/// whatever FTZ/DAZ says. To e8m0: the nearest power of two, infinity gives NaN.
struct nearest_even {
  template <class To, class From>
  AMP_HD static constexpr To round(From value) noexcept {
    if constexpr (std::same_as<To, From>) {
      return value;
    } else if constexpr (std::same_as<To, e8m0>) {
      if constexpr (std::same_as<From, double>) return e8m0::nearest(value);
      if constexpr (std::integral<From>) return detail::power_of_integer(value, false);
      return e8m0::nearest(static_cast<float>(value));
    } else if constexpr (detail::LowFloat<To>) {
      return detail::rounded<To, false>(value);
    } else {
      return static_cast<To>(value);
    }
  }
};

/// To nearest, ties to even; overflow and infinities give the largest number of their sign, a NaN stays a NaN where the
/// format has any and gives the largest number elsewhere (e2m1).
struct saturating {
  template <class To, class From>
  AMP_HD static constexpr To round(From value) noexcept {
    if constexpr (detail::LowFloat<To>) {
      return detail::rounded<To, true>(value);
    } else {
      const To result = static_cast<To>(value);
      constexpr To max = std::numeric_limits<To>::max();
      return result > max ? max : result < -max ? -max : result;
    }
  }
};

/// Up with a probability equal to the fraction between the neighbours, else down; never to infinity from a number
/// within the range, above it as nearest_even. The random word is that of element `index` (core/philox.hpp): the same
/// for whatever vector, thread or device rounds the element.
struct stochastic {
  std::uint64_t seed, index, stream = 0;

  template <class To, class From>
  AMP_HD constexpr To round(From value) const noexcept {
    return detail::rounded_stochastically<To, false>(value, random_word(seed, stream, index));
  }
};
/// The same, and saturating.
struct saturating_stochastic {
  std::uint64_t seed, index, stream = 0;

  template <class To, class From>
  AMP_HD constexpr To round(From value) const noexcept {
    return detail::rounded_stochastically<To, true>(value, random_word(seed, stream, index));
  }
};

/// The magnitude up to a power of two: what scales need, and the default for e8m0.
struct round_up {
  template <class To, class From>
  AMP_HD static constexpr To round(From value) noexcept {
    static_assert(std::same_as<To, e8m0>, "amp: rounding up is for scales in e8m0");
    if constexpr (std::same_as<From, double>) {
      return e8m0(value);
    } else if constexpr (std::integral<From>) {
      return detail::power_of_integer(value, true);
    } else {
      return e8m0(static_cast<float>(value));
    }
  }
};

template <class To>
using default_rounding = std::conditional_t<std::same_as<To, e8m0>, round_up, nearest_even>;

/// Converts one value: `convert<half>(x)`, `convert<e4m3>(x, saturating{})`, from fp32, fp64, an integer or another
/// format, with one rounding.
template <class To, class Rounding = default_rounding<To>, class From>
[[nodiscard]] AMP_HD constexpr To convert(From value, Rounding rounding = {}) noexcept {
  return rounding.template round<To>(value);
}

}  // namespace amp
