#include <doctest/doctest.h>

#include <amp/formats/half.hpp>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include "formats/reference.hpp"

using amp::half;
using test_formats::is_nan_pattern;

namespace {

half bits(unsigned pattern) { return half::from_bits(static_cast<std::uint16_t>(pattern)); }

/// The value of a pattern, from the definition of the format.
double value_of(unsigned pattern) {
  const int exponent = static_cast<int>((pattern >> 10) & ((1u << 5) - 1u));
  const unsigned fraction = pattern & ((1u << 10) - 1u);
  const double sign = (pattern & 0x8000u) != 0 ? -1 : 1;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - 15 - 10);
  if (exponent == (1 << 5) - 1) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  return sign * std::ldexp(fraction + (1u << 10), exponent - 15 - 10);
}

}  // namespace

TEST_SUITE("formats/half") {
  TEST_CASE("N5 all 65536 patterns of half widen exactly and come back as the same bits") {
    unsigned wrong = 0;
    for (unsigned pattern = 0; pattern < 0x10000u; ++pattern) {
      const half x = bits(pattern);
      const float wide = x;
      if (is_nan_pattern(x)) {
        wrong +=
            std::isnan(wide) && is_nan_pattern(half(wide)) && is_nan_pattern(half(static_cast<double>(wide))) ? 0 : 1;
      } else {
        wrong +=
            static_cast<double>(wide) == value_of(pattern) && std::signbit(wide) == ((pattern & 0x8000u) != 0) ? 0 : 1;
        wrong += half(wide).bits() == pattern && half(static_cast<double>(wide)).bits() == pattern ? 0 : 1;
      }
    }
    CHECK(wrong == 0);
  }

  TEST_CASE("N2 N3 N5 a float rounds to half as double arithmetic says, NaNs with any payload stay NaNs") {
    unsigned wrong = 0;
    for (const float x : test_formats::structured_floats()) {
      const half y(x);
      if (std::isnan(x)) {
        wrong += is_nan_pattern(y) ? 0 : 1;
      } else {
        wrong +=
            static_cast<double>(float(y)) == test_formats::rounded<half>(x) && std::signbit(float(y)) == std::signbit(x)
                ? 0
                : 1;
      }
      wrong += std::isnan(x) || half(static_cast<double>(x)).bits() == y.bits() ? 0 : 1;
    }
    CHECK(wrong == 0);
  }

  TEST_CASE("N6 a double rounds to half once, also where its float would be a tie") {
    unsigned wrong = 0;
    for (unsigned pattern = 0; pattern < (((1u << 5) - 1u) << 10) - 1; ++pattern) {
      const double low = value_of(pattern);
      const double high = value_of(pattern + 1);
      const double middle = low + (high - low) / 2;
      const unsigned even = (pattern & 1u) == 0 ? pattern : pattern + 1;
      wrong += half(middle).bits() == even ? 0 : 1;
      wrong += half(std::nextafter(middle, low)).bits() == pattern ? 0 : 1;  // a float would see a tie
      wrong += half(std::nextafter(middle, high)).bits() == pattern + 1 ? 0 : 1;
      wrong += half(-std::nextafter(middle, high)).bits() == ((pattern + 1) | 0x8000u) ? 0 : 1;
    }
    CHECK(wrong == 0);
    CHECK(half(std::numeric_limits<double>::max()) == std::numeric_limits<half>::infinity());
    CHECK(half(std::numeric_limits<double>::denorm_min()).bits() == 0);
    CHECK(half(-std::numeric_limits<double>::denorm_min()).bits() == 0x8000u);
    CHECK(is_nan_pattern(half(std::numeric_limits<double>::quiet_NaN())));
    // A payload in the lowest bits only must not become infinity.
    CHECK(is_nan_pattern(half(std::bit_cast<double>(0x7ff0000000000001u))));
    CHECK(is_nan_pattern(half(std::bit_cast<float>(0x7f800001u))));
  }

  TEST_CASE("N6 integers round to half once from their exact value") {
    unsigned wrong = 0;
    for (int n = -70000; n <= 70000; ++n) wrong += half(n).bits() == half(static_cast<double>(n)).bits() ? 0 : 1;
    for (int shift = 0; shift < 64; ++shift) {
      const std::uint64_t power = std::uint64_t{1} << shift;
      const std::uint64_t tie = power | (shift > 10 ? power >> (10 + 1) : 0);
      wrong += half(power).bits() == half(std::ldexp(1.0, shift)).bits() ? 0 : 1;
      // One above a tie: the rounding to double would lose that one for large values.
      if (shift > 10 + 1 && half(std::ldexp(1.0, shift)) < std::numeric_limits<half>::infinity()) {
        wrong += half(tie).bits() == half(power).bits() ? 0 : 1;
        wrong += half(tie + 1).bits() == half(power).bits() + 1 ? 0 : 1;
      }
    }
    CHECK(wrong == 0);
    CHECK(half(std::numeric_limits<std::int64_t>::min()) == -half(std::uint64_t{1} << 63));
    CHECK(half(true) == half(1.f));
  }

  TEST_CASE("N7 arithmetic of half computes in fp32 and rounds once per operation") {
    const std::vector<unsigned> patterns{0x0000u, 0x8000u, 0x0001u, 0x03ffu, 0x0400u, 0x3bffu,
                                         0x3c00u, 0x3c01u, 0x3f80u, 0x4248u, 0x7bffu, 0x7f7fu,
                                         0xbf80u, 0xfbffu, 0x0080u, 0x1234u, 0xc321u};
    for (const unsigned i : patterns) {
      for (const unsigned j : patterns) {
        const half a = bits(i);
        const half b = bits(j);
        if (is_nan_pattern(a) || is_nan_pattern(b)) continue;
        const auto same = [](amp::half x, float y) {
          return x.bits() == amp::half(y).bits() || (is_nan_pattern(x) && std::isnan(y));
        };
        CHECK(same(a + b, float(a) + float(b)));
        CHECK(same(a - b, float(a) - float(b)));
        CHECK(same(a * b, float(a) * float(b)));
        CHECK(same(a / b, float(a) / float(b)));
        CHECK((a < b) == (float(a) < float(b)));
        CHECK((a == b) == (float(a) == float(b)));
        half c = a;
        c += b;
        CHECK(same(c, float(a) + float(b)));
      }
    }
    CHECK((-bits(0)).bits() == 0x8000u);
    const half nan = std::numeric_limits<half>::quiet_NaN();
    CHECK_FALSE(nan == nan);
    CHECK_FALSE(nan < nan);
    CHECK(half(1.f) + 0.5f == 1.5f);  // with a float: fp32
    static_assert(std::is_same_v<decltype(half(1.f) * 2.f), float>);
    static_assert(!std::is_convertible_v<float, half> && std::is_convertible_v<half, float>);
  }

  TEST_CASE("N11 half is a trivially copyable value of two bytes with limits and a hash") {
    static_assert(sizeof(half) == 2 && std::is_trivially_copyable_v<half> &&
                  std::is_trivially_default_constructible_v<half>);
    using limits = std::numeric_limits<half>;
    static_assert(limits::is_specialized && limits::digits == 10 + 1);
    static_assert(limits::max_exponent == 15 + 1 && limits::min_exponent == 2 - 15);
    CHECK(float(limits::max()) == amp::half_traits<half>::max);
    CHECK(limits::lowest() == -limits::max());
    CHECK(float(limits::min()) == amp::half_traits<half>::min_normal);
    CHECK(float(limits::denorm_min()) == amp::half_traits<half>::denorm_min);
    CHECK(float(limits::epsilon()) == amp::half_traits<half>::epsilon);
    CHECK(std::isinf(float(limits::infinity())));
    CHECK(std::isnan(float(limits::quiet_NaN())));
    CHECK(limits::digits10 == static_cast<int>(10 * std::log10(2.0)));
    CHECK(limits::max_digits10 == static_cast<int>(std::ceil(1 + (10 + 1) * std::log10(2.0))));
    CHECK(limits::max_exponent10 == static_cast<int>(std::log10(double(float(limits::max())))));
    CHECK(limits::min_exponent10 == -static_cast<int>(-std::log10(double(float(limits::min())))));
    CHECK(std::hash<half>{}(bits(0)) == std::hash<half>{}(bits(0x8000u)));
    std::unordered_set<half> set{half(1.f), half(1.f), half(2.f)};
    CHECK(set.size() == 2);
  }
}

TEST_SUITE("formats/half/thresholds") {
  TEST_CASE("65520 and above become infinity, below it 65504, half a denorm_min goes to zero with its sign") {
    CHECK(half(65520.f).bits() == 0x7c00u);
    CHECK(half(std::nextafter(65520.f, 0.f)).bits() == 0x7bffu);
    CHECK(half(-65520.f).bits() == 0xfc00u);
    CHECK(half(65519.999999).bits() == 0x7bffu);
    CHECK(half(65520).bits() == 0x7c00u);
    CHECK(half(65519).bits() == 0x7bffu);
    CHECK(half(0x1p-25f).bits() == 0u);
    CHECK(half(-0x1p-25f).bits() == 0x8000u);
    CHECK(half(std::nextafter(0x1p-25f, 1.f)).bits() == 1u);
    CHECK(half(1e-40f).bits() == 0u);
  }
}
