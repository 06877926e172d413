#include <doctest/doctest.h>

#include <amp/core/philox.hpp>
#include <cstdint>
#include <set>

namespace {
using words = amp::philox_words<std::uint32_t>;
constexpr bool same(const words& x, const words& y) { return x.a == y.a && x.b == y.b && x.c == y.c && x.d == y.d; }
}  // namespace

TEST_SUITE("core/philox") {
  TEST_CASE("N8 Philox4x32-10 gives the words of Random123's known-answer file") {
    static_assert(
        same(amp::philox4x32<std::uint32_t>({0, 0, 0, 0}, 0, 0), {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
    static_assert(same(
        amp::philox4x32<std::uint32_t>({0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu}, 0xffffffffu, 0xffffffffu),
        {0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
    CHECK(same(
        amp::philox4x32<std::uint32_t>({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, 0xa4093822u, 0x299f31d0u),
        {0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
  }

  TEST_CASE("N8 an element's word is one of its counter's four and depends on seed, stream and index alone") {
    const std::uint64_t element = 64 * 5 + 16 * 2 + 7;
    const words of = amp::philox4x32<std::uint32_t>({16 * 5 + 7, 0, 3, 9}, 11, 13);
    CHECK(amp::random_word(11 + (std::uint64_t{13} << 32), 3 + (std::uint64_t{9} << 32), element) == of.c);
    std::set<std::uint32_t> distinct;
    for (std::uint64_t i = 0; i < 4096; ++i) distinct.insert(amp::random_word(1, 2, i));
    CHECK(distinct.size() == 4096);  // no two elements share a word (expected collisions: 0.002)
    CHECK(amp::random_word(1, 2, 0) != amp::random_word(2, 2, 0));
    CHECK(amp::random_word(1, 2, 0) != amp::random_word(1, 3, 0));
    CHECK(amp::random_word(1, 2, std::uint64_t{1} << 40) != amp::random_word(1, 2, 0));
  }
}
