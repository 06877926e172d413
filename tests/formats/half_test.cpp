#include <doctest/doctest.h>

#include <amp/formats/half.hpp>
#include <cmath>

using amp::half;

TEST_SUITE("formats/half") {
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
