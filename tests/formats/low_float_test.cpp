#include <doctest/doctest.h>

#include <amp/formats/bfloat16.hpp>
#include <amp/formats/half.hpp>
#include <amp/half_traits.hpp>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include "formats/reference.hpp"

using amp::bfloat16;
using amp::half;
using test_formats::is_nan_pattern;

namespace {

template <class T>
constexpr int exponent_bits = std::same_as<T, half> ? 5 : 8;
template <class T>
constexpr int mantissa_bits = std::same_as<T, half> ? 10 : 7;
template <class T>
constexpr int bias = std::same_as<T, half> ? 15 : 127;

template <class T>
T bits_as(unsigned pattern) {
  return T::from_bits(static_cast<std::uint16_t>(pattern));
}

/// The value of a pattern, from the definition of the format.
template <class T>
double value_of(unsigned pattern) {
  const int exponent = static_cast<int>((pattern >> mantissa_bits<T>)&((1u << exponent_bits<T>)-1u));
  const unsigned fraction = pattern & ((1u << mantissa_bits<T>)-1u);
  const double sign = (pattern & 0x8000u) != 0 ? -1 : 1;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias<T> - mantissa_bits<T>);
  if (exponent == (1 << exponent_bits<T>)-1) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  return sign * std::ldexp(fraction + (1u << mantissa_bits<T>), exponent - bias<T> - mantissa_bits<T>);
}

}  // namespace

TEST_SUITE("formats/low_float") {
  TEST_CASE_TEMPLATE("N5 all 65536 patterns of a 16-bit format widen exactly and come back as the same bits", T, half,
                     bfloat16) {
    unsigned wrong = 0;
    for (unsigned pattern = 0; pattern < 0x10000u; ++pattern) {
      const T x = bits_as<T>(pattern);
      const float wide = x;
      if (is_nan_pattern(x)) {
        wrong += std::isnan(wide) && is_nan_pattern(T(wide)) && is_nan_pattern(T(static_cast<double>(wide))) ? 0 : 1;
      } else {
        wrong += static_cast<double>(wide) == value_of<T>(pattern) && std::signbit(wide) == ((pattern & 0x8000u) != 0)
                     ? 0
                     : 1;
        wrong += T(wide).bits() == pattern && T(static_cast<double>(wide)).bits() == pattern ? 0 : 1;
      }
    }
    CHECK(wrong == 0);
  }

  TEST_CASE_TEMPLATE("N2 N3 N5 a float rounds to 16 bits as double arithmetic says, NaNs with any payload stay NaNs", T,
                     half, bfloat16) {
    unsigned wrong = 0;
    for (const float x : test_formats::structured_floats()) {
      const T y(x);
      if (std::isnan(x)) {
        wrong += is_nan_pattern(y) ? 0 : 1;
      } else {
        wrong +=
            static_cast<double>(float(y)) == test_formats::rounded<T>(x) && std::signbit(float(y)) == std::signbit(x)
                ? 0
                : 1;
      }
      wrong += std::isnan(x) || T(static_cast<double>(x)).bits() == y.bits() ? 0 : 1;
    }
    CHECK(wrong == 0);
  }

  TEST_CASE_TEMPLATE("N6 a double rounds to 16 bits once, also where its float would be a tie", T, half, bfloat16) {
    unsigned wrong = 0;
    for (unsigned pattern = 0; pattern < (((1u << exponent_bits<T>)-1u) << mantissa_bits<T>)-1; ++pattern) {
      const double low = value_of<T>(pattern);
      const double high = value_of<T>(pattern + 1);
      const double middle = low + (high - low) / 2;
      const unsigned even = (pattern & 1u) == 0 ? pattern : pattern + 1;
      wrong += T(middle).bits() == even ? 0 : 1;
      wrong += T(std::nextafter(middle, low)).bits() == pattern ? 0 : 1;  // a float would see a tie
      wrong += T(std::nextafter(middle, high)).bits() == pattern + 1 ? 0 : 1;
      wrong += T(-std::nextafter(middle, high)).bits() == ((pattern + 1) | 0x8000u) ? 0 : 1;
    }
    CHECK(wrong == 0);
    CHECK(T(std::numeric_limits<double>::max()) == std::numeric_limits<T>::infinity());
    CHECK(T(std::numeric_limits<double>::denorm_min()).bits() == 0);
    CHECK(T(-std::numeric_limits<double>::denorm_min()).bits() == 0x8000u);
    CHECK(is_nan_pattern(T(std::numeric_limits<double>::quiet_NaN())));
    // A payload in the lowest bits only must not become infinity.
    CHECK(is_nan_pattern(T(std::bit_cast<double>(0x7ff0000000000001u))));
    CHECK(is_nan_pattern(T(std::bit_cast<float>(0x7f800001u))));
  }

  TEST_CASE_TEMPLATE("N6 integers round to 16 bits once from their exact value", T, half, bfloat16) {
    unsigned wrong = 0;
    for (int n = -70000; n <= 70000; ++n) wrong += T(n).bits() == T(static_cast<double>(n)).bits() ? 0 : 1;
    for (int shift = 0; shift < 64; ++shift) {
      const std::uint64_t power = std::uint64_t{1} << shift;
      const std::uint64_t tie = power | (shift > mantissa_bits<T> ? power >> (mantissa_bits<T> + 1) : 0);
      wrong += T(power).bits() == T(std::ldexp(1.0, shift)).bits() ? 0 : 1;
      // One above a tie: the rounding to double would lose that one for large values.
      if (shift > mantissa_bits<T> + 1 && T(std::ldexp(1.0, shift)) < std::numeric_limits<T>::infinity()) {
        wrong += T(tie).bits() == T(power).bits() ? 0 : 1;
        wrong += T(tie + 1).bits() == T(power).bits() + 1 ? 0 : 1;
      }
    }
    CHECK(wrong == 0);
    CHECK(T(std::numeric_limits<std::int64_t>::min()) == -T(std::uint64_t{1} << 63));
    CHECK(T(true) == T(1.f));
  }

  TEST_CASE_TEMPLATE("N7 arithmetic of a 16-bit format computes in fp32 and rounds once per operation", T, half,
                     bfloat16) {
    const std::vector<unsigned> patterns{0x0000u, 0x8000u, 0x0001u, 0x03ffu, 0x0400u, 0x3bffu,
                                         0x3c00u, 0x3c01u, 0x3f80u, 0x4248u, 0x7bffu, 0x7f7fu,
                                         0xbf80u, 0xfbffu, 0x0080u, 0x1234u, 0xc321u};
    for (const unsigned i : patterns) {
      for (const unsigned j : patterns) {
        const T a = bits_as<T>(i);
        const T b = bits_as<T>(j);
        if (is_nan_pattern(a) || is_nan_pattern(b)) continue;
        const auto same = [](T x, float y) { return x.bits() == T(y).bits() || (is_nan_pattern(x) && std::isnan(y)); };
        CHECK(same(a + b, float(a) + float(b)));
        CHECK(same(a - b, float(a) - float(b)));
        CHECK(same(a * b, float(a) * float(b)));
        CHECK(same(a / b, float(a) / float(b)));
        CHECK((a < b) == (float(a) < float(b)));
        CHECK((a == b) == (float(a) == float(b)));
        T c = a;
        c += b;
        CHECK(same(c, float(a) + float(b)));
      }
    }
    CHECK((-bits_as<T>(0)).bits() == 0x8000u);
    const T nan = std::numeric_limits<T>::quiet_NaN();
    CHECK_FALSE(nan == nan);
    CHECK_FALSE(nan < nan);
    CHECK(T(1.f) + 0.5f == 1.5f);  // with a float: fp32
    static_assert(std::is_same_v<decltype(T(1.f) * 2.f), float>);
    static_assert(!std::is_convertible_v<float, T> && std::is_convertible_v<T, float>);
  }

  TEST_CASE_TEMPLATE("N11 a 16-bit format is a trivially copyable value of two bytes with limits and a hash", T, half,
                     bfloat16) {
    static_assert(sizeof(T) == 2 && std::is_trivially_copyable_v<T> && std::is_trivially_default_constructible_v<T>);
    using limits = std::numeric_limits<T>;
    static_assert(limits::is_specialized && limits::digits == mantissa_bits<T> + 1);
    static_assert(limits::max_exponent == bias<T> + 1 && limits::min_exponent == 2 - bias<T>);
    CHECK(float(limits::max()) == amp::half_traits<T>::max);
    CHECK(limits::lowest() == -limits::max());
    CHECK(float(limits::min()) == amp::half_traits<T>::min_normal);
    CHECK(float(limits::denorm_min()) == amp::half_traits<T>::denorm_min);
    CHECK(float(limits::epsilon()) == amp::half_traits<T>::epsilon);
    CHECK(std::isinf(float(limits::infinity())));
    CHECK(std::isnan(float(limits::quiet_NaN())));
    CHECK(limits::digits10 == static_cast<int>(mantissa_bits<T> * std::log10(2.0)));
    CHECK(limits::max_digits10 == static_cast<int>(std::ceil(1 + (mantissa_bits<T> + 1) * std::log10(2.0))));
    CHECK(limits::max_exponent10 == static_cast<int>(std::log10(double(float(limits::max())))));
    CHECK(limits::min_exponent10 == -static_cast<int>(-std::log10(double(float(limits::min())))));
    CHECK(std::hash<T>{}(bits_as<T>(0)) == std::hash<T>{}(bits_as<T>(0x8000u)));
    std::unordered_set<T> set{T(1.f), T(1.f), T(2.f)};
    CHECK(set.size() == 2);
  }
}
