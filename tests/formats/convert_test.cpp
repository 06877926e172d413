#include <doctest/doctest.h>

#include <amp/formats/convert.hpp>
#include <amp/half_traits.hpp>
#include <amp/simd/target.hpp>
#include <bit>
#include <cstdint>
#include <vector>

#include "formats/reference.hpp"

using amp::bfloat16;
using amp::half;

TEST_SUITE("formats/convert") {
  TEST_CASE("between low formats the rounding happens once, from the exact value") {
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
  }

  TEST_CASE_TEMPLATE("conversions give the same bits with FTZ and DAZ set", T, half, bfloat16) {
    const std::vector<float> floats = test_formats::structured_floats();
    std::vector<std::uint16_t> expected;
    for (const float x : floats) expected.push_back(T(x).bits());
    std::vector<std::uint32_t> widened;
    for (unsigned p = 0; p < 0x10000u; ++p) {
      widened.push_back(std::bit_cast<std::uint32_t>(float(T::from_bits(static_cast<std::uint16_t>(p)))));
    }
    unsigned wrong = 0;
    {
      const amp::simd::flush_scope flush;
      for (std::size_t i = 0; i < floats.size(); ++i) wrong += T(floats[i]).bits() == expected[i] ? 0 : 1;
      for (unsigned p = 0; p < 0x10000u; ++p) {
        wrong += std::bit_cast<std::uint32_t>(float(T::from_bits(static_cast<std::uint16_t>(p)))) == widened[p] ? 0 : 1;
      }
    }
    CHECK(wrong == 0);
  }
}
