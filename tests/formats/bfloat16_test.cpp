#include <doctest/doctest.h>

#include <amp/formats/bfloat16.hpp>
#include <bit>

using amp::bfloat16;

TEST_SUITE("formats/bfloat16") {
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
