#include <doctest/doctest.h>

#include <amp/core/philox.hpp>
#include <amp/formats/convert.hpp>
#include <amp/half_traits.hpp>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "formats/reference.hpp"

using amp::half_traits;
using test_formats::is_nan_pattern;

namespace {

template <class T>
T from_code(unsigned magnitude, bool negative) {
  constexpr unsigned sign = 1u << (half_traits<T>::exponent_bits + half_traits<T>::mantissa_bits);
  return T::from_bits(static_cast<typename T::storage_type>(magnitude | (negative ? sign : 0u)));
}
/// The magnitude of the format next below x, as a code.
template <class T>
unsigned code_below(double x) {
  constexpr int M = half_traits<T>::mantissa_bits;
  const int exponent = std::max(std::ilogb(x), 1 - half_traits<T>::bias);
  const auto units = static_cast<unsigned>(std::floor(std::ldexp(x, M - exponent)));  // the hidden bit included
  return (static_cast<unsigned>(exponent + half_traits<T>::bias - 1) << M) + units;
}
template <class T>
T rounded(float x, std::uint32_t random) {
  const std::uint32_t bits = half_traits<T>::encode_stochastic(std::bit_cast<std::uint32_t>(x), random);
  return T::from_bits(static_cast<typename T::storage_type>(bits));
}

}  // namespace

#define AMP_TEST_LOW amp::half, amp::bfloat16, amp::e4m3, amp::e5m2, amp::e4m3fnuz, amp::e5m2fnuz, amp::e2m1

TEST_SUITE("formats/stochastic") {
  TEST_CASE_TEMPLATE("N8 a stochastic rounding is one of the two neighbours, down and up by the random word", T,
                     AMP_TEST_LOW) {
    unsigned wrong = 0;
    for (const float x : test_formats::structured_floats()) {
      if (!std::isfinite(x) || x == 0 || std::abs(x) > half_traits<T>::max) continue;
      const double magnitude = std::abs(static_cast<double>(x));
      const unsigned below = code_below<T>(magnitude);
      const double low = test_formats::value_of<T>(below);
      const bool exact = low == magnitude;
      const unsigned above = exact ? below : below + 1;
      const auto is = [&](T y, unsigned code) {
        return float(y) ==
               float(from_code<T>(code, std::signbit(x) && (code != 0 || half_traits<T>::has_negative_zero)));
      };
      // No word moves an exact value. Otherwise 0 rounds down; all ones rounds up once the fraction is 2^-31.
      wrong += is(rounded<T>(x, 0), below) ? 0 : 1;
      const double unit = test_formats::value_of<T>(below + 1) - low;
      const bool visible = below + 1 > T(half_traits<T>::max).bits() || (magnitude - low) / unit >= 0x1p-31;
      if (visible) wrong += is(rounded<T>(x, 0xffffffffu), above) ? 0 : 1;
      const T any = rounded<T>(x, 0x5a5a5a5au);
      wrong += is(any, below) || is(any, above) ? 0 : 1;
    }
    CHECK(wrong == 0);
  }

  TEST_CASE_TEMPLATE("N8 the probability of rounding up is the fraction: 2^20 draws are unbiased within 4 sigma", T,
                     AMP_TEST_LOW) {
    // Normal and subnormal numbers, a third, and fractions near 0 and 1 of a unit.
    const float unit = half_traits<T>::epsilon, small = half_traits<T>::denorm_min;
    constexpr bool flushes =
        half_traits<T>::exponent_bits == 8;  // bf16's subnormals are fp32's, and need no other rule
    const float values[] = {
        1.f + unit / 3, 1.f + unit * 0.01f, -(1.f + unit * 0.97f),
        small / 3,      -small * 0.9f,      flushes ? 1.f + unit / 7 : half_traits<T>::min_normal - small * 0.25f};
    std::uint64_t stream = 0;
    for (const float x : values) {
      constexpr int draws = 1 << 20;
      const double magnitude = std::abs(static_cast<double>(x));
      const unsigned below = code_below<T>(magnitude);
      const double low = test_formats::value_of<T>(below), high = test_formats::value_of<T>(below + 1);
      const double probability = (magnitude - low) / (high - low);
      int ups = 0;
      ++stream;
      for (int i = 0; i < draws; ++i) {
        const T y = rounded<T>(x, amp::random_word(20261130, stream, static_cast<std::uint64_t>(i)));
        ups += std::abs(static_cast<double>(float(y))) == high ? 1 : 0;
      }
      const double sigma = std::sqrt(draws * probability * (1 - probability));
      CAPTURE(x);
      CAPTURE(probability);
      CHECK(std::abs(ups - draws * probability) < 4 * sigma);
    }
  }

  TEST_CASE_TEMPLATE(
      "N8 stochastic rounding never makes infinity of a number in range, and treats inf and NaN as usual", T,
      AMP_TEST_LOW) {
    const float max = half_traits<T>::max;
    CHECK(float(rounded<T>(max, 0xffffffffu)) == max);
    CHECK(float(rounded<T>(std::nextafterf(max, 0.f), 0xffffffffu)) == max);
    // Above the largest number the rule of nearest-even holds, whatever the word.
    const float last = std::bit_cast<float>(half_traits<T>::overflow_bits - 1);
    const float beyond = std::bit_cast<float>(half_traits<T>::overflow_bits);
    for (const std::uint32_t random : {0u, 0x80000000u, 0xffffffffu}) {
      CHECK(float(rounded<T>(last, random)) == max);
      CHECK(float(rounded<T>(-last, random)) == -max);
      CHECK(rounded<T>(beyond, random).bits() == T(beyond).bits());
      const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
      CHECK(rounded<T>(-inf, random).bits() == T(-inf).bits());
      CHECK(is_nan_pattern(rounded<T>(nan, random)) == half_traits<T>::has_nan);
      CHECK(is_nan_pattern(rounded<T>(std::bit_cast<float>(0x7f800001u), random)) == half_traits<T>::has_nan);
      const auto saturated = half_traits<T>::encode_stochastic_saturating(std::bit_cast<std::uint32_t>(-inf), random);
      CHECK(float(T::from_bits(static_cast<typename T::storage_type>(saturated))) == -max);
      CHECK(rounded<T>(0.f, random).bits() == 0);
      CHECK(rounded<T>(-0.f, random).bits() == T(-0.f).bits());
    }
  }

  TEST_CASE_TEMPLATE("N6 N8 a double rounds stochastically as the float of its value does, and from bits a float lacks",
                     T, AMP_TEST_LOW) {
    unsigned wrong = 0;
    std::uint64_t element = 0;
    for (const float x : test_formats::structured_floats()) {
      const amp::stochastic policy{.seed = 9, .index = ++element};
      const T y = amp::convert<T>(x, policy);
      wrong += y.bits() == amp::convert<T>(static_cast<double>(x), policy).bits() || std::isnan(x) ? 0 : 1;
      wrong += y.bits() == rounded<T>(x, amp::random_word(9, 0, element)).bits() ? 0 : 1;
      if (element % 64 == 0) {
        const amp::saturating_stochastic saturates{.seed = 9, .index = element};
        wrong += std::isnan(x) || std::abs(float(amp::convert<T>(x, saturates))) <= half_traits<T>::max ? 0 : 1;
      }
    }
    CHECK(wrong == 0);
    const double above_one = 1.0 + 0x1p-30 * static_cast<double>(half_traits<T>::epsilon);  // 1 as a float
    int ups = 0;
    for (std::uint64_t word = 0; word < 4; ++word)
      ups += float(amp::detail::rounded_stochastically<T, false>(above_one,
                                                                 static_cast<std::uint32_t>(0u - word - 1u))) > 1.f
                 ? 1
                 : 0;
    CHECK(ups == 4);  // the four largest of 2^32 words reach 1 - 2^-30
    CHECK(amp::convert<T>(3, amp::stochastic{1, 2}).bits() == T(3).bits());
  }
}
