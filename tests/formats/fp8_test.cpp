#include <doctest/doctest.h>

#include <amp/formats/convert.hpp>
#include <amp/formats/fp8.hpp>
#include <amp/half_traits.hpp>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <unordered_set>

#include "formats/reference.hpp"

using amp::e2m1;
using amp::e4m3;
using amp::e4m3fnuz;
using amp::e5m2;
using amp::e5m2fnuz;
using amp::half_traits;
using test_formats::is_nan_pattern;
using test_formats::value_of;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

template <class T>
T bits(unsigned pattern) {
  return T::from_bits(static_cast<std::uint8_t>(pattern));
}
template <class T>
constexpr unsigned patterns = 1u << (1 + half_traits<T>::exponent_bits + half_traits<T>::mantissa_bits);
template <class T>
constexpr bool is_inf_pattern(unsigned pattern) {
  return half_traits<T>::has_infinity && (pattern & 0x7fu) == 0x7cu;
}

/// Whether y is what the double `exact`, already rounded to the format's spacing or infinite, has to become.
template <class T>
bool agrees(T y, double exact, bool negative) {
  if (std::isinf(exact) && !half_traits<T>::has_infinity) {
    if (half_traits<T>::has_nan) return is_nan_pattern(y);
    exact = std::copysign(static_cast<double>(half_traits<T>::max), exact);
  }
  const float wide = y;
  return static_cast<double>(wide) == exact &&
         std::signbit(wide) == (negative && (exact != 0 || half_traits<T>::has_negative_zero));
}

}  // namespace

#define AMP_TEST_SMALL e4m3, e5m2, e4m3fnuz, e5m2fnuz, e2m1

TEST_SUITE("formats/fp8") {
  TEST_CASE_TEMPLATE("N5 all patterns of the 8-bit and 4-bit floats widen exactly and come back as the same bits", T,
                     AMP_TEST_SMALL) {
    unsigned wrong = 0;
    for (unsigned pattern = 0; pattern < patterns<T>; ++pattern) {
      const T x = bits<T>(pattern);
      const float wide = x;
      if (is_nan_pattern(x)) {
        wrong += std::isnan(wide) && is_nan_pattern(T(wide)) && is_nan_pattern(T(static_cast<double>(wide))) ? 0 : 1;
        continue;
      }
      const double expected =
          is_inf_pattern<T>(pattern) ? (pattern > 0x7fu ? -infinity : infinity) : value_of<T>(pattern);
      wrong += static_cast<double>(wide) == expected && std::signbit(wide) == (2 * pattern >= patterns<T>) ? 0 : 1;
      wrong += T(wide).bits() == pattern && T(static_cast<double>(wide)).bits() == pattern ? 0 : 1;
    }
    CHECK(wrong == 0);
  }

  TEST_CASE_TEMPLATE("N2 N3 N5 a float rounds to the small formats as double arithmetic says, NaN stays NaN", T,
                     AMP_TEST_SMALL) {
    unsigned wrong = 0;
    for (const float x : test_formats::structured_floats()) {
      const T y(x);
      if (std::isnan(x)) {
        wrong += half_traits<T>::has_nan ? (is_nan_pattern(y) ? 0 : 1) : (float(y) == half_traits<T>::max ? 0 : 1);
        continue;
      }
      wrong += agrees(y, test_formats::rounded<T>(x), std::signbit(x)) ? 0 : 1;
      wrong += T(static_cast<double>(x)).bits() == y.bits() ? 0 : 1;
    }
    CHECK(wrong == 0);
  }

  TEST_CASE_TEMPLATE("N2 N6 ties between all neighbours go to the even one, a double decides by its last bit", T,
                     AMP_TEST_SMALL) {
    const unsigned max_code = T(half_traits<T>::max).bits();
    unsigned wrong = 0;
    for (unsigned pattern = 0; pattern < max_code; ++pattern) {
      const double low = value_of<T>(pattern);
      const double high = value_of<T>(pattern + 1);
      const double middle = low + (high - low) / 2;
      const unsigned even = (pattern & 1u) == 0 ? pattern : pattern + 1;
      wrong += T(middle).bits() == even && T(static_cast<float>(middle)).bits() == even ? 0 : 1;
      wrong += T(std::nextafter(middle, low)).bits() == pattern ? 0 : 1;  // a float would see a tie
      wrong += T(std::nextafter(middle, high)).bits() == pattern + 1 ? 0 : 1;
      wrong += T(std::nextafterf(static_cast<float>(middle), 0.f)).bits() == pattern ? 0 : 1;
      wrong += T(std::nextafterf(static_cast<float>(middle), 1e9f)).bits() == pattern + 1 ? 0 : 1;
    }
    CHECK(wrong == 0);
    // Half a denorm_min goes to zero and keeps its sign where there is one.
    const float half_denorm = half_traits<T>::denorm_min / 2;
    CHECK(float(T(half_denorm)) == 0.f);
    CHECK(std::signbit(float(T(-half_denorm))) == half_traits<T>::has_negative_zero);
    CHECK(float(T(std::nextafterf(half_denorm, 1.f))) == half_traits<T>::denorm_min);
    CHECK(T(std::numeric_limits<double>::denorm_min()).bits() == 0u);
  }

  TEST_CASE("N3 overflow begins where it should: 61440 in e5m2, above 464 in e4m3") {
    CHECK(e5m2(61440.f).bits() == 0x7cu);
    CHECK(e5m2(-61440.f).bits() == 0xfcu);
    CHECK(e5m2(std::nextafterf(61440.f, 0.f)).bits() == 0x7bu);
    CHECK(float(e4m3(464.f)) == 448.f);
    CHECK(float(e4m3(-464.)) == -448.f);
    CHECK(is_nan_pattern(e4m3(std::nextafterf(464.f, 1e9f))));
    CHECK(is_nan_pattern(e4m3(std::nextafter(464., 1e9))));
    CHECK(is_nan_pattern(e4m3(std::numeric_limits<float>::infinity())));
    CHECK(is_nan_pattern(e4m3(465)));
    CHECK(is_nan_pattern(e4m3fnuz(248.f)));
    CHECK(float(e4m3fnuz(std::nextafterf(248.f, 0.f))) == 240.f);
    CHECK(is_nan_pattern(e5m2fnuz(61440.f)));
    CHECK(is_nan_pattern(e5m2fnuz(-61440)));
    CHECK(float(e5m2fnuz(61439)) == 57344.f);
  }

  TEST_CASE_TEMPLATE("N4 saturating: overflow and infinities give the largest number of their sign, NaN stays NaN", T,
                     AMP_TEST_SMALL) {
    using amp::convert;
    using amp::saturating;
    const float max = half_traits<T>::max;
    unsigned wrong = 0;
    for (const float x : test_formats::structured_floats()) {
      const T y = convert<T>(x, saturating{});
      if (std::isnan(x)) {
        wrong += half_traits<T>::has_nan ? (is_nan_pattern(y) ? 0 : 1) : (float(y) == max ? 0 : 1);
        continue;
      }
      const double exact = test_formats::rounded<T>(x);
      wrong +=
          agrees(y, std::isinf(exact) ? std::copysign(static_cast<double>(max), x) : exact, std::signbit(x)) ? 0 : 1;
      wrong += convert<T>(static_cast<double>(x), saturating{}).bits() == y.bits() ? 0 : 1;
    }
    CHECK(wrong == 0);
    CHECK(float(convert<T>(1e300, saturating{})) == max);
    CHECK(float(convert<T>(-infinity, saturating{})) == -max);
    CHECK(float(convert<T, saturating>(std::numeric_limits<std::int64_t>::min())) == -max);
    CHECK(float(convert<T>(amp::half(65504.f), saturating{})) == max);
    CHECK(float(convert<T>(std::numeric_limits<amp::bfloat16>::infinity(), saturating{})) == max);
  }

  TEST_CASE_TEMPLATE("N6 integers round once from their exact value, to the small formats too", T, AMP_TEST_SMALL) {
    unsigned wrong = 0;
    for (int n = -70000; n <= 70000; ++n) {
      wrong += T(n).bits() == T(static_cast<double>(n)).bits() ? 0 : 1;
      wrong += T(static_cast<long>(n)).bits() == T(static_cast<float>(n)).bits() ? 0 : 1;
    }
    CHECK(wrong == 0);
    CHECK(T(std::numeric_limits<std::uint64_t>::max()).bits() == T(0x1p64).bits());
    CHECK(T(true).bits() == T(1.f).bits());
  }

  TEST_CASE_TEMPLATE("N7 arithmetic of all pairs computes in fp32 and rounds once", T, e4m3, e5m2, e4m3fnuz, e2m1) {
    unsigned wrong = 0;
    const auto same = [](T x, float y) {
      return x.bits() == T(y).bits() || (is_nan_pattern(x) && is_nan_pattern(T(y)));
    };
    for (unsigned i = 0; i < patterns<T>; ++i) {
      for (unsigned j = 0; j < patterns<T>; j += 3) {
        const T a = bits<T>(i), b = bits<T>(j);
        wrong += same(a + b, float(a) + float(b)) && same(a - b, float(a) - float(b)) ? 0 : 1;
        wrong += same(a * b, float(a) * float(b)) && same(a / b, float(a) / float(b)) ? 0 : 1;
        wrong += (a < b) == (float(a) < float(b)) && (a == b) == (float(a) == float(b)) ? 0 : 1;
        T c = a;
        c -= b;
        wrong += same(c, float(a) - float(b)) ? 0 : 1;
      }
      wrong += is_nan_pattern(bits<T>(i)) || float(-bits<T>(i)) == -float(bits<T>(i)) ? 0 : 1;
      wrong += is_nan_pattern(-bits<T>(i)) == is_nan_pattern(bits<T>(i)) ? 0 : 1;
    }
    CHECK(wrong == 0);
    T x(1.f);
    CHECK(float(++x) == 2.f);
    CHECK(float(--x) == 1.f);
  }

  TEST_CASE_TEMPLATE("N11 small floats are trivially copyable values of a byte with limits and a hash", T,
                     AMP_TEST_SMALL) {
    static_assert(sizeof(T) == 1 && std::is_trivially_copyable_v<T> && std::is_trivially_default_constructible_v<T>);
    using limits = std::numeric_limits<T>;
    using traits = half_traits<T>;
    static_assert(limits::is_specialized && limits::digits == traits::digits && limits::radix == 2);
    static_assert(limits::has_infinity == traits::has_infinity && limits::has_quiet_NaN == traits::has_nan);
    CHECK(float(limits::max()) == traits::max);
    CHECK(float(limits::lowest()) == -traits::max);
    CHECK(float(limits::min()) == traits::min_normal);
    CHECK(float(limits::denorm_min()) == traits::denorm_min);
    CHECK(float(limits::epsilon()) == traits::epsilon);
    CHECK(std::isinf(float(limits::infinity())) == traits::has_infinity);
    CHECK(std::isnan(float(limits::quiet_NaN())) == traits::has_nan);
    CHECK(limits::max_exponent == std::ilogb(traits::max) + 1);
    CHECK(limits::min_exponent == std::ilogb(traits::min_normal) + 1);
    CHECK(limits::digits10 == static_cast<int>(traits::mantissa_bits * std::log10(2.0)));
    CHECK(limits::max_digits10 == static_cast<int>(std::ceil(1 + traits::digits * std::log10(2.0))));
    CHECK(limits::max_exponent10 == static_cast<int>(std::log10(double(traits::max))));
    CHECK(limits::min_exponent10 == -static_cast<int>(-std::log10(double(traits::min_normal))));
    CHECK(std::hash<T>{}(T(0.f)) == std::hash<T>{}(T(-0.f)));
    const std::unordered_set<T> set{T(1.f), T(1.f), T(2.f)};
    CHECK(set.size() == 2);
    static_assert(std::is_same_v<amp::e4m3fn, e4m3>);
  }
}
