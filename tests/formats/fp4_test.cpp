#include <doctest/doctest.h>

#include <amp/formats/fp4.hpp>
#include <limits>

using amp::e2m1;

TEST_SUITE("formats/fp4") {
  TEST_CASE("N1 N4 e2m1 holds 0, 0.5, 1, 1.5, 2, 3, 4, 6 and what lies beyond becomes 6, a NaN +6") {
    const float values[] = {0.f, 0.5f, 1.f, 1.5f, 2.f, 3.f, 4.f, 6.f};
    for (unsigned p = 0; p < 8; ++p) {
      CHECK(float(e2m1::from_bits(static_cast<std::uint8_t>(p))) == values[p]);
      CHECK(float(e2m1::from_bits(static_cast<std::uint8_t>(p + 8))) == -values[p]);
    }
    CHECK(float(e2m1(5.f)) == 4.f);  // a tie goes to the even mantissa
    CHECK(float(e2m1(7.f)) == 6.f);
    CHECK(float(e2m1(1e30f)) == 6.f);
    CHECK(float(e2m1(-std::numeric_limits<float>::infinity())) == -6.f);
    CHECK(float(e2m1(-std::numeric_limits<float>::quiet_NaN())) == 6.f);
    CHECK(float(e2m1(-std::numeric_limits<double>::quiet_NaN())) == 6.f);
    CHECK(float(e2m1(1e300)) == 6.f);
    CHECK(float(e2m1(-1000)) == -6.f);
  }

  TEST_CASE("N11 two e2m1 values pack into a byte, the first in the lower half, and come back") {
    for (unsigned byte = 0; byte < 256; ++byte) {
      const amp::e2m1_pair pair = amp::unpack(static_cast<std::uint8_t>(byte));
      CHECK(pair.first.bits() == (byte & 15u));
      CHECK(pair.second.bits() == byte >> 4);
      CHECK(amp::pack(pair.first, pair.second) == byte);
    }
  }
}
