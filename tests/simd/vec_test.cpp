#include <doctest/doctest.h>

#include <amp/simd/load.hpp>
#include <amp/simd/math.hpp>
#include <amp/simd/target.hpp>
#include <amp/simd/vec.hpp>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "simd/targets.hpp"

using amp::simd::target;

namespace {

constexpr int results = 14;

/// Every operator and function once, on pairs of values; the first output array gets the first result, and so on.
struct everything {
  template <class V>
  AMP_INLINE static void run(const float* a, const float* b, float* out, std::int64_t n) {
    using namespace amp::simd;
    for (std::int64_t i = 0; i + lanes<V> <= n; i += lanes<V>) {
      const V x = load<V>(a + i);
      const V y = load<V>(b + i);
      V sum = x;
      sum += y;
      sum -= 0.25f * y;
      sum *= x;
      sum /= y;
      const V all[results] = {x + y,
                              x - y,
                              x * y,
                              x / y,
                              -x,
                              2.f * x + y * 3.f - 1.f,
                              sqrt(abs(x)),
                              abs(x),
                              min(x, y),
                              max(x, y),
                              select(x < y, x, y),
                              select(isfinite(x), V(1.f), V(0.f)),
                              select(reaches(x, 0x477ff000), V(1.f), select(x >= y, V(2.f), V(3.f))),
                              sum};
      for (int k = 0; k < results; ++k) store(out + k * n + i, all[k]);
    }
  }
};

struct any_of {
  template <class V>
  AMP_INLINE static void run(const float* a, int* out) {
    *out = amp::simd::any(amp::simd::load<V>(a) > V(0.f)) ? 1 : 0;
  }
};

}  // namespace

TEST_SUITE("simd/vec") {
  TEST_CASE("every operator and function gives the scalar bits on every target") {
    std::vector<float> a, b;
    for (const float x : {0.f, -0.f, 1.f, -1.f, 1.5f, 65519.f, 65520.f, -65520.f, 3e38f, 1e-38f, 1e-45f, 7.25f, 0.1f,
                          1e-20f, std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
      for (const float y : {0.f, -0.f, 1.f, -3.f, 1e38f, 1e-40f, 0.3f, std::numeric_limits<float>::infinity()}) {
        a.push_back(x);
        b.push_back(y);
      }
    }
    const auto n = static_cast<std::int64_t>(a.size());
    REQUIRE(n % 16 == 0);
    const auto run = [&](target t) {
      std::vector<float> out(static_cast<std::size_t>(results * n));
      amp::simd::kernel<everything, const float*, const float*, float*, std::int64_t>(t)(a.data(), b.data(), out.data(),
                                                                                         n);
      return out;
    };
    const std::vector<float> expected = run(target::scalar);
    CHECK(expected[1] == 1.f * 0.f + a[1] + b[1]);
    CHECK(expected[static_cast<std::size_t>(6 * n + 32)] == std::sqrt(1.5f));
    for (const target t : test_simd::targets()) {
      const std::vector<float> got = run(t);
      unsigned wrong = 0;
      for (std::size_t i = 0; i < got.size(); ++i) {
        const bool both_nan = std::isnan(got[i]) && std::isnan(expected[i]);
        wrong += both_nan || std::bit_cast<std::uint32_t>(got[i]) == std::bit_cast<std::uint32_t>(expected[i]) ? 0 : 1;
      }
      CAPTURE(amp::simd::name(t));
      CHECK(wrong == 0);
    }
  }

  TEST_CASE("any sees each single lane") {
    for (const target t : test_simd::targets()) {
      const int lanes = t == target::scalar ? 1 : t == target::base ? 4 : t == target::avx2 ? 8 : 16;
      const auto kernel = amp::simd::kernel<any_of, const float*, int*>(t);
      for (int k = -1; k < lanes; ++k) {
        float x[16] = {};
        if (k >= 0) x[k] = 1.f;
        int found = -1;
        kernel(x, &found);
        CHECK(found == (k >= 0 ? 1 : 0));
      }
    }
  }
}
