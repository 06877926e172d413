#include <doctest/doctest.h>

#include <amp/formats/convert.hpp>
#include <amp/formats/e8m0.hpp>
#include <amp/half_traits.hpp>
#include <amp/simd/load.hpp>
#include <amp/simd/target.hpp>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <unordered_set>
#include <vector>

#include "formats/reference.hpp"
#include "simd/targets.hpp"

using amp::e8m0;

namespace {

e8m0 bits(unsigned pattern) { return e8m0::from_bits(static_cast<std::uint8_t>(pattern)); }

/// The definition, in double arithmetic.
unsigned rounded_up(double x) {
  if (std::isnan(x)) return 255;
  x = std::abs(x);
  if (x <= 0x1p-127) return 0;
  if (x > 0x1p127) return 254;
  int exponent = 0;
  const double mantissa = std::frexp(x, &exponent);  // x = mantissa * 2^exponent, mantissa in [0.5, 1)
  return static_cast<unsigned>((mantissa == 0.5 ? exponent - 1 : exponent) + 127);
}

struct encode_up {
  template <class V>
  AMP_INLINE static void run(const float* from, float* to, int n) {
    for (int i = 0; i + amp::simd::lanes<V> <= n; i += amp::simd::lanes<V>) {
      const auto code = amp::half_traits<e8m0>::encode(amp::simd::bits_of(amp::simd::load<V>(from + i)));
      amp::simd::store(to + i, amp::simd::from_bits<V>(amp::half_traits<e8m0>::decode(code)));
    }
  }
};

}  // namespace

TEST_SUITE("formats/e8m0") {
  TEST_CASE("N1 N9 all 256 patterns of e8m0 are 2 to the power of their number less 127, 0xff is NaN") {
    for (unsigned p = 0; p < 255; ++p) {
      CHECK(static_cast<double>(float(bits(p))) == std::ldexp(1.0, static_cast<int>(p) - 127));
      CHECK(e8m0(float(bits(p))).bits() == p);
      CHECK(e8m0(static_cast<double>(float(bits(p)))).bits() == p);
      CHECK(e8m0::nearest(float(bits(p))).bits() == p);
    }
    CHECK(std::isnan(float(bits(255))));
    CHECK(std::fpclassify(float(bits(0))) == FP_SUBNORMAL);
  }

  TEST_CASE("N9 a float rounds up to a power of two, zero to the lowest, infinity to 2^127, NaN to NaN") {
    unsigned wrong = 0;
    for (const float x : test_formats::structured_floats()) {
      wrong += e8m0(x).bits() == rounded_up(x) ? 0 : 1;
      wrong += e8m0(static_cast<double>(x)).bits() == rounded_up(x) ? 0 : 1;
      wrong += amp::convert<e8m0>(x).bits() == rounded_up(x) ? 0 : 1;
    }
    CHECK(wrong == 0);
    CHECK(e8m0(0.f).bits() == 0);
    CHECK(e8m0(0x1p-127f).bits() == 0);
    CHECK(e8m0(std::nextafterf(0x1p-127f, 1.f)).bits() == 1);
    CHECK(e8m0(0x1p127f).bits() == 254);
    CHECK(e8m0(std::nextafterf(0x1p127f, 1e38f)).bits() == 254);
    CHECK(e8m0(std::numeric_limits<float>::infinity()).bits() == 254);
    CHECK(e8m0(-3.f).bits() == e8m0(4.f).bits());         // the magnitude counts
    CHECK(e8m0(std::nextafter(1.0, 2.0)).bits() == 128);  // a float would see 1
    CHECK(e8m0(1e300).bits() == 254);
    CHECK(e8m0(1e-300).bits() == 0);
  }

  TEST_CASE("N9 the nearest mode is that of torch's cast: the middle goes up, infinity is NaN") {
    using amp::nearest_even;
    CHECK(e8m0::nearest(1.49f).bits() == 127);
    CHECK(e8m0::nearest(1.5f).bits() == 128);
    CHECK(e8m0::nearest(3.f).bits() == 129);
    CHECK(e8m0::nearest(0.f).bits() == 0);
    CHECK(e8m0::nearest(0x1p-127f).bits() == 0);
    CHECK(e8m0::nearest(0x1.8p-127f).bits() == 1);
    CHECK(e8m0::nearest(0x1.7ffffep127f).bits() == 254);
    CHECK(e8m0::nearest(0x1.8p127f).bits() == 255);
    CHECK(e8m0::nearest(std::numeric_limits<float>::infinity()).bits() == 255);
    CHECK(e8m0::nearest(std::numeric_limits<float>::quiet_NaN()).bits() == 255);
    CHECK(e8m0::nearest(std::bit_cast<float>(0x7fffffffu)).bits() == 255);
    CHECK(amp::convert<e8m0>(3.f, nearest_even{}).bits() == 129);
    CHECK(amp::convert<e8m0>(std::nextafter(1.5, 1.0), nearest_even{}).bits() == 127);  // a float would see 1.5
    unsigned wrong = 0;
    for (const float x : test_formats::structured_floats())
      wrong += std::isnan(x) || e8m0::nearest(x).bits() == e8m0::nearest(static_cast<double>(x)).bits() ? 0 : 1;
    CHECK(wrong == 0);
  }

  TEST_CASE("N6 N9 integers become powers of two from their exact value") {
    unsigned wrong = 0;
    for (int n = -5000; n <= 5000; ++n) {
      wrong += amp::convert<e8m0>(n).bits() == e8m0(static_cast<double>(n)).bits() ? 0 : 1;
      wrong +=
          amp::convert<e8m0>(n, amp::nearest_even{}).bits() == e8m0::nearest(static_cast<double>(n)).bits() ? 0 : 1;
    }
    CHECK(wrong == 0);
    CHECK(amp::convert<e8m0>((std::int64_t{1} << 60) + 1).bits() == 127 + 61);  // a double would see 2^60
    CHECK(amp::convert<e8m0>(std::numeric_limits<std::int64_t>::min()).bits() == 127 + 63);
    CHECK(amp::convert<e8m0>(std::numeric_limits<std::uint64_t>::max()).bits() == 127 + 64);
    CHECK(amp::convert<e8m0>((std::uint64_t{3} << 61) - 1, amp::nearest_even{}).bits() == 127 + 62);
    CHECK(amp::convert<e8m0>(std::uint64_t{3} << 61, amp::nearest_even{}).bits() == 127 + 63);
  }

  TEST_CASE("N9 the reciprocal of 2^127 is 2^-127, of NaN NaN, and of every other power exact") {
    CHECK(bits(254).reciprocal().bits() == 0);
    CHECK(bits(255).reciprocal().bits() == 255);
    for (unsigned p = 1; p < 254; ++p) CHECK(float(bits(p).reciprocal()) == 1.f / float(bits(p)));
  }

  TEST_CASE("N9 N10 every target gives e8m0's scalar bits, FTZ and DAZ set or not") {
    std::vector<float> floats = test_formats::structured_floats();
    floats.resize(floats.size() / 16 * 16);
    for (const auto t : test_simd::targets()) {
      for (const bool flushing : {false, true}) {
        std::vector<float> got(floats.size());
        const auto kernel = amp::simd::kernel<encode_up, const float*, float*, int>(t);
        if (flushing) {
          const amp::simd::flush_scope scope;
          kernel(floats.data(), got.data(), static_cast<int>(floats.size()));
        } else {
          kernel(floats.data(), got.data(), static_cast<int>(floats.size()));
        }
        unsigned wrong = 0;
        for (std::size_t i = 0; i < floats.size(); ++i)
          wrong += std::bit_cast<std::uint32_t>(got[i]) == std::bit_cast<std::uint32_t>(float(e8m0(floats[i]))) ? 0 : 1;
        CAPTURE(amp::simd::name(t));
        CHECK(wrong == 0);
      }
    }
  }

  TEST_CASE("N11 e8m0 is a byte with limits and a hash, and orders as its values do") {
    using limits = std::numeric_limits<e8m0>;
    static_assert(limits::is_specialized && !limits::is_signed && !limits::has_infinity && limits::digits == 1);
    CHECK(float(limits::max()) == 0x1p127f);
    CHECK(float(limits::lowest()) == 0x1p-127f);
    CHECK(std::isnan(float(limits::quiet_NaN())));
    CHECK(bits(3) < bits(4));
    CHECK_FALSE(bits(255) == bits(255));
    CHECK_FALSE(bits(255) < bits(3));
    const std::unordered_set<e8m0> set{bits(1), bits(1), bits(2)};
    CHECK(set.size() == 2);
  }
}
