/// The formats against ml_dtypes, by checksums over all patterns and over floats around every tie.
#include <doctest/doctest.h>

#include <amp/formats/convert.hpp>
#include <amp/half_traits.hpp>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "formats/reference.hpp"
#include "golden/formats_ml_dtypes.hpp"

namespace {

/// 64-bit FNV-1a over 16-bit words.
struct checksum {
  std::uint64_t value = 0xcbf29ce484222325u;
  void add(unsigned word) { value = (value ^ word) * 0x100000001b3u; }
};

const golden::format& find(std::string_view name) {
  for (const auto& format : golden::formats)
    if (name == format.name) return format;
  throw amp::error("no golden values", amp::where::here());
}

template <class T, class Narrow>
void compare(std::string_view name, unsigned patterns, Narrow narrow) {
  checksum widened, narrowed;
  for (unsigned p = 0; p < patterns; ++p) {
    const float x = T::from_bits(static_cast<typename T::storage_type>(p));
    const std::uint32_t bits = std::isnan(x) ? 0x7fc00000u : std::bit_cast<std::uint32_t>(x);
    widened.add(bits >> 16);
    widened.add(bits & 0xffffu);
  }
  for (const float x : test_formats::structured_floats()) {
    if (!std::isfinite(x) || (name == "e8m0" && x < 0x1p-126f)) continue;
    const T y = narrow(x);
    narrowed.add(std::isnan(float(y)) ? 0xffffu : y.bits());
  }
  CAPTURE(name);
  CHECK(widened.value == find(name).widened);
  CHECK(narrowed.value == find(name).narrowed);
}
template <class T>
void compare(std::string_view name, unsigned patterns) {
  compare<T>(name, patterns, [](float x) { return T(x); });
}

}  // namespace

TEST_SUITE("formats/golden") {
  TEST_CASE("N2 N3 N5 N9 every format equals ml_dtypes on all patterns and around every tie") {
    compare<amp::half>("half", 0x10000u);
    compare<amp::bfloat16>("bfloat16", 0x10000u);
    compare<amp::e4m3>("e4m3", 256);
    compare<amp::e5m2>("e5m2", 256);
    compare<amp::e4m3fnuz>("e4m3fnuz", 256);
    compare<amp::e5m2fnuz>("e5m2fnuz", 256);
    compare<amp::e2m1>("e2m1", 16);
    compare<amp::e8m0>("e8m0", 256, [](float x) { return amp::e8m0::nearest(x); });
  }
}
