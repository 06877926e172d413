#include <doctest/doctest.h>

#include <amp/half_traits.hpp>
#include <amp/simd/bytes.hpp>
#include <amp/simd/target.hpp>
#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "formats/reference.hpp"
#include "simd/targets.hpp"

using amp::simd::target;

namespace {
struct decode_lanes {
  template <class V, class T>
  AMP_INLINE static void run(const T* from, float* to) {
    for (int i = 0; i < 256; i += amp::simd::lanes<V>) amp::simd::store(to + i, amp::simd::load<V>(from + i));
  }
};
}  // namespace

TEST_SUITE("simd/bytes") {
  TEST_CASE_TEMPLATE("N2 N10 the kernel of all 8-bit formats gives each one's scalar bits on every target", T,
                     amp::e4m3, amp::e5m2, amp::e4m3fnuz, amp::e5m2fnuz) {
    const std::vector<float> floats = test_formats::structured_floats();
    const auto n = static_cast<std::int64_t>(floats.size()) - 5;  // a tail on every target
    std::vector<std::uint8_t> expected;
    for (const float x : floats) expected.push_back(T(x).bits());
    for (const target t : test_simd::targets()) {
      for (const bool flushing : {false, true}) {
        std::vector<std::uint8_t> got(floats.size(), 77);
        {
          std::optional<amp::simd::flush_scope> flush;
          if (flushing) flush.emplace();
          amp::simd::kernel<amp::simd::encode_bytes, const float*, std::int64_t, std::uint8_t*,
                            const amp::simd::byte_format&>(t)(floats.data(), n, got.data(),
                                                              amp::simd::byte_format_of<T>);
        }
        unsigned wrong = 0;
        for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) wrong += got[i] == expected[i] ? 0 : 1;
        for (std::size_t i = static_cast<std::size_t>(n); i < got.size(); ++i) wrong += got[i] == 77 ? 0 : 1;
        CAPTURE(amp::simd::name(t));
        CAPTURE(flushing);
        CHECK(wrong == 0);
      }
    }
  }

  TEST_CASE_TEMPLATE("N5 N10 all 256 patterns widen to the same bits by table, by value and on every target", T,
                     amp::e4m3, amp::e5m2, amp::e4m3fnuz, amp::e5m2fnuz) {
    std::vector<std::uint8_t> patterns;
    std::vector<T> values;
    for (unsigned p = 0; p < 256; ++p) {
      patterns.push_back(static_cast<std::uint8_t>(p));
      values.push_back(T::from_bits(static_cast<std::uint8_t>(p)));
    }
    std::vector<float> table(256);
    amp::simd::decode_bytes(patterns.data(), 256, table.data(), amp::simd::byte_values<T>);
    unsigned wrong = 0;
    const auto compare = [&](const std::vector<float>& got) {
      for (std::size_t p = 0; p < 256; ++p)
        wrong += std::bit_cast<std::uint32_t>(got[p]) == std::bit_cast<std::uint32_t>(float(values[p])) ? 0 : 1;
    };
    compare(table);
    for (const target t : test_simd::targets()) {
      for (const bool flushing : {false, true}) {
        std::optional<amp::simd::flush_scope> flush;
        if (flushing) flush.emplace();
        std::vector<float> got(256);
        amp::simd::kernel<decode_lanes, const T*, float*>(t)(values.data(), got.data());
        flush.reset();
        compare(got);
      }
    }
    CHECK(wrong == 0);
  }
}
