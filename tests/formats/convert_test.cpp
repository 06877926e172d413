#include <doctest/doctest.h>

#include <amp/formats/convert.hpp>
#include <amp/half_traits.hpp>
#include <amp/simd/target.hpp>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "formats/reference.hpp"

using amp::bfloat16;
using amp::half;

TEST_SUITE("formats/convert") {
  TEST_CASE("N5 N6 between low formats the rounding happens once, from the exact value") {
    unsigned wrong = 0;
    for (unsigned pattern = 0; pattern < 0x10000u; ++pattern) {
      const auto h = half::from_bits(static_cast<std::uint16_t>(pattern));
      const auto b = bfloat16::from_bits(static_cast<std::uint16_t>(pattern));
      wrong += amp::convert<bfloat16>(h).bits() == bfloat16(float(h)).bits() ? 0 : 1;
      wrong += amp::convert<half>(b, amp::nearest_even{}).bits() == half(float(b)).bits() ? 0 : 1;
      wrong += amp::convert<half>(h).bits() == pattern ? 0 : 1;
    }
    CHECK(wrong == 0);
    CHECK(amp::convert<half>(1.0) == half(1.f));
    CHECK(amp::convert<bfloat16>(3) == bfloat16(3.f));
    CHECK(amp::convert<float>(half(0.5f)) == 0.5f);
    static_assert(!std::is_constructible_v<half, long double> && !std::is_constructible_v<amp::e4m3, long double>);
  }

  TEST_CASE_TEMPLATE("N2 conversions give the same bits with FTZ and DAZ set", T, half, bfloat16, amp::e4m3, amp::e5m2,
                     amp::e4m3fnuz, amp::e5m2fnuz, amp::e2m1) {
    const std::vector<float> floats = test_formats::structured_floats();
    std::vector<unsigned> expected;
    const unsigned patterns = sizeof(T) == 2 ? 0x10000u : 256u;
    for (const float x : floats) expected.push_back(T(x).bits());
    std::vector<std::uint32_t> widened;
    for (unsigned p = 0; p < patterns; ++p) {
      widened.push_back(std::bit_cast<std::uint32_t>(float(T::from_bits(static_cast<typename T::storage_type>(p)))));
    }
    unsigned wrong = 0;
    {
      const amp::simd::flush_scope flush;
      for (std::size_t i = 0; i < floats.size(); ++i) wrong += T(floats[i]).bits() == expected[i] ? 0 : 1;
      for (unsigned p = 0; p < patterns; ++p) {
        wrong +=
            std::bit_cast<std::uint32_t>(float(T::from_bits(static_cast<typename T::storage_type>(p)))) == widened[p]
                ? 0
                : 1;
      }
    }
    CHECK(wrong == 0);
  }

  TEST_CASE("N5 NaN in is NaN out for every pair of formats that have one") {
    unsigned wrong = 0;
    const auto to_all = [&](auto from) {
      const auto check = [&](auto to) { wrong += std::isnan(float(to)) ? 0 : 1; };
      using amp::convert;
      check(convert<half>(from)), check(convert<bfloat16>(from)), check(convert<float>(from));
      check(convert<amp::e4m3>(from)), check(convert<amp::e5m2>(from)), check(convert<amp::e8m0>(from));
      check(convert<amp::e4m3fnuz>(from)), check(convert<amp::e5m2fnuz>(from));
      check(convert<half>(from, amp::saturating{})), check(convert<bfloat16>(from, amp::saturating{}));
      check(convert<amp::e4m3>(from, amp::saturating{})), check(convert<amp::e5m2>(from, amp::saturating{}));
      check(convert<amp::e4m3fnuz>(from, amp::saturating{}));
    };
    for (unsigned p = 0; p < 0x10000u; ++p) {
      const auto all = [&](auto x) {
        if (std::isnan(float(x))) to_all(x);
      };
      all(half::from_bits(static_cast<std::uint16_t>(p)));
      all(bfloat16::from_bits(static_cast<std::uint16_t>(p)));
      if (p > 0xff) continue;
      const auto byte = static_cast<std::uint8_t>(p);
      all(amp::e4m3::from_bits(byte)), all(amp::e5m2::from_bits(byte)), all(amp::e8m0::from_bits(byte));
      all(amp::e4m3fnuz::from_bits(byte)), all(amp::e5m2fnuz::from_bits(byte));
    }
    to_all(std::bit_cast<double>(0x7ff0000000000001u));
    to_all(std::bit_cast<double>(0xfff0000000000001u));
    for (int bit = 0; bit < 23; ++bit) {  // a payload only in bits that are cut off must not become infinity
      to_all(std::bit_cast<float>(0x7f800000u | (1u << bit)));
      to_all(std::bit_cast<float>(0xff800000u | (1u << bit)));
    }
    CHECK(wrong == 0);
  }

  TEST_CASE("N4 saturation is the choice of the caller, wide formats saturate too") {
    using amp::convert;
    using amp::saturating;
    CHECK(std::isinf(float(convert<half>(1e9f))));
    CHECK(float(convert<half>(1e9f, saturating{})) == 65504.f);
    CHECK(float(convert<half>(-1e300, saturating{})) == -65504.f);
    CHECK(float(convert<bfloat16>(std::numeric_limits<float>::max(), saturating{})) == 0x1.fep127f);
    CHECK(float(convert<bfloat16>(-std::numeric_limits<float>::infinity(), saturating{})) == -0x1.fep127f);
    CHECK(convert<float>(1e300, saturating{}) == std::numeric_limits<float>::max());
    CHECK(convert<float>(-1e300, saturating{}) == -std::numeric_limits<float>::max());
    unsigned wrong = 0;
    for (const float x : test_formats::structured_floats()) {
      if (std::isinf(float(half(x))) || std::isnan(x)) continue;
      wrong += convert<half>(x, saturating{}).bits() == half(x).bits() ? 0 : 1;
      if (std::isinf(float(bfloat16(x)))) continue;
      wrong += convert<bfloat16>(x, saturating{}).bits() == bfloat16(x).bits() ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
}
