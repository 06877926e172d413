#include <doctest/doctest.h>

#include <amp/formats/bfloat16.hpp>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include "formats/reference.hpp"

using amp::bfloat16;
using test_formats::is_nan_pattern;

namespace {

bfloat16 bits(unsigned pattern) { return bfloat16::from_bits(static_cast<std::uint16_t>(pattern)); }

/// The value of a pattern, from the definition of the format.
double value_of(unsigned pattern) {
  const int exponent = static_cast<int>((pattern >> 7) & ((1u << 8) - 1u));
  const unsigned fraction = pattern & ((1u << 7) - 1u);
  const double sign = (pattern & 0x8000u) != 0 ? -1 : 1;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - 127 - 7);
  if (exponent == (1 << 8) - 1) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  return sign * std::ldexp(fraction + (1u << 7), exponent - 127 - 7);
}

}  // namespace

TEST_SUITE("formats/bfloat16") {
  TEST_CASE("N5 all 65536 patterns of bfloat16 widen exactly and come back as the same bits") {
    unsigned wrong = 0;
    for (unsigned pattern = 0; pattern < 0x10000u; ++pattern) {
      const bfloat16 x = bits(pattern);
      const float wide = x;
      if (is_nan_pattern(x)) {
        wrong +=
            std::isnan(wide) && is_nan_pattern(bfloat16(wide)) && is_nan_pattern(bfloat16(static_cast<double>(wide)))
                ? 0
                : 1;
      } else {
        wrong +=
            static_cast<double>(wide) == value_of(pattern) && std::signbit(wide) == ((pattern & 0x8000u) != 0) ? 0 : 1;
        wrong += bfloat16(wide).bits() == pattern && bfloat16(static_cast<double>(wide)).bits() == pattern ? 0 : 1;
      }
    }
    CHECK(wrong == 0);
  }

  TEST_CASE("N2 N3 N5 a float rounds to bfloat16 as double arithmetic says, NaNs with any payload stay NaNs") {
    unsigned wrong = 0;
    for (const float x : test_formats::structured_floats()) {
      const bfloat16 y(x);
      if (std::isnan(x)) {
        wrong += is_nan_pattern(y) ? 0 : 1;
      } else {
        wrong += static_cast<double>(float(y)) == test_formats::rounded<bfloat16>(x) &&
                         std::signbit(float(y)) == std::signbit(x)
                     ? 0
                     : 1;
      }
      wrong += std::isnan(x) || bfloat16(static_cast<double>(x)).bits() == y.bits() ? 0 : 1;
    }
    CHECK(wrong == 0);
  }

  TEST_CASE("N6 a double rounds to bfloat16 once, also where its float would be a tie") {
    unsigned wrong = 0;
    for (unsigned pattern = 0; pattern < (((1u << 8) - 1u) << 7) - 1; ++pattern) {
      const double low = value_of(pattern);
      const double high = value_of(pattern + 1);
      const double middle = low + (high - low) / 2;
      const unsigned even = (pattern & 1u) == 0 ? pattern : pattern + 1;
      wrong += bfloat16(middle).bits() == even ? 0 : 1;
      wrong += bfloat16(std::nextafter(middle, low)).bits() == pattern ? 0 : 1;  // a float would see a tie
      wrong += bfloat16(std::nextafter(middle, high)).bits() == pattern + 1 ? 0 : 1;
      wrong += bfloat16(-std::nextafter(middle, high)).bits() == ((pattern + 1) | 0x8000u) ? 0 : 1;
    }
    CHECK(wrong == 0);
    CHECK(bfloat16(std::numeric_limits<double>::max()) == std::numeric_limits<bfloat16>::infinity());
    CHECK(bfloat16(std::numeric_limits<double>::denorm_min()).bits() == 0);
    CHECK(bfloat16(-std::numeric_limits<double>::denorm_min()).bits() == 0x8000u);
    CHECK(is_nan_pattern(bfloat16(std::numeric_limits<double>::quiet_NaN())));
    // A payload in the lowest bits only must not become infinity.
    CHECK(is_nan_pattern(bfloat16(std::bit_cast<double>(0x7ff0000000000001u))));
    CHECK(is_nan_pattern(bfloat16(std::bit_cast<float>(0x7f800001u))));
  }

  TEST_CASE("N6 integers round to bfloat16 once from their exact value") {
    unsigned wrong = 0;
    for (int n = -70000; n <= 70000; ++n)
      wrong += bfloat16(n).bits() == bfloat16(static_cast<double>(n)).bits() ? 0 : 1;
    for (int shift = 0; shift < 64; ++shift) {
      const std::uint64_t power = std::uint64_t{1} << shift;
      const std::uint64_t tie = power | (shift > 7 ? power >> (7 + 1) : 0);
      wrong += bfloat16(power).bits() == bfloat16(std::ldexp(1.0, shift)).bits() ? 0 : 1;
      // One above a tie: the rounding to double would lose that one for large values.
      if (shift > 7 + 1 && bfloat16(std::ldexp(1.0, shift)) < std::numeric_limits<bfloat16>::infinity()) {
        wrong += bfloat16(tie).bits() == bfloat16(power).bits() ? 0 : 1;
        wrong += bfloat16(tie + 1).bits() == bfloat16(power).bits() + 1 ? 0 : 1;
      }
    }
    CHECK(wrong == 0);
    CHECK(bfloat16(std::numeric_limits<std::int64_t>::min()) == -bfloat16(std::uint64_t{1} << 63));
    CHECK(bfloat16(true) == bfloat16(1.f));
  }

  TEST_CASE("N7 arithmetic of bfloat16 computes in fp32 and rounds once per operation") {
    const std::vector<unsigned> patterns{0x0000u, 0x8000u, 0x0001u, 0x03ffu, 0x0400u, 0x3bffu,
                                         0x3c00u, 0x3c01u, 0x3f80u, 0x4248u, 0x7bffu, 0x7f7fu,
                                         0xbf80u, 0xfbffu, 0x0080u, 0x1234u, 0xc321u};
    for (const unsigned i : patterns) {
      for (const unsigned j : patterns) {
        const bfloat16 a = bits(i);
        const bfloat16 b = bits(j);
        if (is_nan_pattern(a) || is_nan_pattern(b)) continue;
        const auto same = [](amp::bfloat16 x, float y) {
          return x.bits() == amp::bfloat16(y).bits() || (is_nan_pattern(x) && std::isnan(y));
        };
        CHECK(same(a + b, float(a) + float(b)));
        CHECK(same(a - b, float(a) - float(b)));
        CHECK(same(a * b, float(a) * float(b)));
        CHECK(same(a / b, float(a) / float(b)));
        CHECK((a < b) == (float(a) < float(b)));
        CHECK((a == b) == (float(a) == float(b)));
        bfloat16 c = a;
        c += b;
        CHECK(same(c, float(a) + float(b)));
      }
    }
    CHECK((-bits(0)).bits() == 0x8000u);
    const bfloat16 nan = std::numeric_limits<bfloat16>::quiet_NaN();
    CHECK_FALSE(nan == nan);
    CHECK_FALSE(nan < nan);
    CHECK(bfloat16(1.f) + 0.5f == 1.5f);  // with a float: fp32
    static_assert(std::is_same_v<decltype(bfloat16(1.f) * 2.f), float>);
    static_assert(!std::is_convertible_v<float, bfloat16> && std::is_convertible_v<bfloat16, float>);
  }

  TEST_CASE("N11 bfloat16 is a trivially copyable value of two bytes with limits and a hash") {
    static_assert(sizeof(bfloat16) == 2 && std::is_trivially_copyable_v<bfloat16> &&
                  std::is_trivially_default_constructible_v<bfloat16>);
    using limits = std::numeric_limits<bfloat16>;
    static_assert(limits::is_specialized && limits::digits == 7 + 1);
    static_assert(limits::max_exponent == 127 + 1 && limits::min_exponent == 2 - 127);
    CHECK(float(limits::max()) == amp::half_traits<bfloat16>::max);
    CHECK(limits::lowest() == -limits::max());
    CHECK(float(limits::min()) == amp::half_traits<bfloat16>::min_normal);
    CHECK(float(limits::denorm_min()) == amp::half_traits<bfloat16>::denorm_min);
    CHECK(float(limits::epsilon()) == amp::half_traits<bfloat16>::epsilon);
    CHECK(std::isinf(float(limits::infinity())));
    CHECK(std::isnan(float(limits::quiet_NaN())));
    CHECK(limits::digits10 == static_cast<int>(7 * std::log10(2.0)));
    CHECK(limits::max_digits10 == static_cast<int>(std::ceil(1 + (7 + 1) * std::log10(2.0))));
    CHECK(limits::max_exponent10 == static_cast<int>(std::log10(double(float(limits::max())))));
    CHECK(limits::min_exponent10 == -static_cast<int>(-std::log10(double(float(limits::min())))));
    CHECK(std::hash<bfloat16>{}(bits(0)) == std::hash<bfloat16>{}(bits(0x8000u)));
    std::unordered_set<bfloat16> set{bfloat16(1.f), bfloat16(1.f), bfloat16(2.f)};
    CHECK(set.size() == 2);
  }
}

TEST_SUITE("formats/bfloat16/thresholds") {
  TEST_CASE("N2 N3 0x7F7F8000 and above become infinity in bf16, half a denorm_min goes to zero with its sign") {
    CHECK(bfloat16(std::bit_cast<float>(0x7f7f8000u)).bits() == 0x7f80u);
    CHECK(bfloat16(std::bit_cast<float>(0x7f7f7fffu)).bits() == 0x7f7fu);
    CHECK(bfloat16(std::bit_cast<float>(0xff7f8000u)).bits() == 0xff80u);
    CHECK(bfloat16(0x1p-134f).bits() == 0u);
    CHECK(bfloat16(-0x1p-134f).bits() == 0x8000u);
    CHECK(bfloat16(0x1.8p-134f).bits() == 1u);
    CHECK(bfloat16(0x1p-133f).bits() == 1u);
  }
}
