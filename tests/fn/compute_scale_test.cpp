#include <doctest/doctest.h>

#include <amp/fn/compute_scale.hpp>
#include <amp/simd/target.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "simd/targets.hpp"

using amp::fn::e8m0_of_amax;
using amp::fn::scale_of_amax;

namespace {
constexpr float largest = std::numeric_limits<float>::max();
constexpr float infinity = std::numeric_limits<float>::infinity();
const float not_a_number = std::numeric_limits<float>::quiet_NaN();
}  // namespace

TEST_SUITE("fn/compute_scale") {
  TEST_CASE("Q2 the scale is max / amax in one division, its inverse one more") {
    for (const float amax : {1.f, 3.f, 448.f, 1e-20f, 7.3e19f, 0.1f, largest}) {
      for (const float max : {448.f, 57344.f, 6.f, 240.f}) {
        const auto pair = scale_of_amax(amax, max);
        CHECK(pair.scale == max / amax);
        CHECK(pair.inverse == 1.f / pair.scale);
      }
    }
  }

  TEST_CASE("Q2 an amax of 0, infinity or NaN gives scale 1, one below eps counts as eps") {
    for (const float amax : {0.f, infinity, not_a_number}) {
      CHECK(scale_of_amax(amax, 448.f).scale == 1.f);
      CHECK(scale_of_amax(amax, 448.f).inverse == 1.f);
    }
    CHECK(scale_of_amax(0.f, 448.f, {.eps = 2.f}).scale == 224.f);
    CHECK(scale_of_amax(1.f, 448.f, {.eps = 2.f}).scale == 224.f);
    CHECK(scale_of_amax(4.f, 448.f, {.eps = 2.f}).scale == 112.f);
    CHECK(scale_of_amax(not_a_number, 448.f, {.eps = 2.f}).scale == 1.f);
    CHECK(scale_of_amax(infinity, 448.f, {.eps = 2.f}).scale == 1.f);
  }

  TEST_CASE("Q2 an infinite scale becomes the largest number, its inverse is exact even where the thread flushes") {
    const auto check = [] {
      for (const float amax : {1e-40f, 1e-37f, std::numeric_limits<float>::denorm_min()}) {
        const auto pair = scale_of_amax(amax, 448.f);
        CHECK(__builtin_bit_cast(std::uint32_t, pair.scale) == 0x7f7fffffu);
        CHECK(__builtin_bit_cast(std::uint32_t, pair.inverse) == 0x00200000u);  // 2^-128
      }
    };
    check();
    const amp::simd::flush_scope flush;
    check();
    CHECK(__builtin_bit_cast(std::uint32_t, amp::fn::reciprocal_of_scale(0x1.8p126f)) == 0x00555555u);
  }

  TEST_CASE("Q2 the power-of-two option cuts the mantissa, so the scale gets smaller") {
    CHECK(scale_of_amax(3.f, 448.f, {.power_of_two = true}).scale == 128.f);
    CHECK(scale_of_amax(3.f, 448.f, {.power_of_two = true}).inverse == 1.f / 128.f);
    CHECK(scale_of_amax(3.5f, 448.f, {.power_of_two = true}).scale == 128.f);
    CHECK(scale_of_amax(1e-40f, 448.f, {.power_of_two = true}).scale == 0x1p127f);
  }

  TEST_CASE("Q4 the e8m0 scale is amax / max rounded up, from the exact quotient") {
    CHECK(float(e8m0_of_amax(448.f, 448.f)) == 1.f);
    CHECK(float(e8m0_of_amax(std::nextafterf(448.f, 500.f), 448.f)) == 2.f);
    CHECK(float(e8m0_of_amax(449.f, 448.f)) == 2.f);
    CHECK(float(e8m0_of_amax(1.f, 448.f)) == 0x1p-8f);
    CHECK(e8m0_of_amax(0.f, 448.f).bits() == 0);
    CHECK(e8m0_of_amax(infinity, 448.f).bits() == 0xfe);
    CHECK(e8m0_of_amax(not_a_number, 448.f).bits() == 0xff);
    const amp::simd::flush_scope flush;
    CHECK(e8m0_of_amax(0x1p-118f, 448.f).bits() == 1);  // a quotient that fp32 holds as a subnormal only
  }

  TEST_CASE("A9 compute_scale and compute_e8m0 serve whole lists, and name the tensor that does not fit") {
    const std::vector<float> a{1.f, 0.f, 448.f}, b{3.f};
    std::vector<float> scale_a(3), inverse_a(3), scale_b(1), inverse_b(1);
    const std::vector<amp::tensor_view> amax{amp::as_view(a), amp::as_view(b)};
    const std::vector<amp::tensor_view> scale{amp::as_view(scale_a), amp::as_view(scale_b)};
    std::vector<amp::tensor_view> inverse{amp::as_view(inverse_a), amp::as_view(inverse_b)};
    amp::fn::compute_scale(amax, scale, inverse, 448.f);
    CHECK(scale_a == std::vector<float>{448.f, 1.f, 1.f});
    CHECK(inverse_a == std::vector<float>{1.f / 448.f, 1.f, 1.f});
    CHECK(scale_b[0] == 448.f / 3.f);
    std::vector<amp::e8m0> codes(3), code(1);
    const std::vector<std::span<amp::e8m0>> spans{codes, code};
    amp::fn::compute_e8m0(amax, spans, 448.f);
    CHECK(codes[0].bits() == 127 - 8);
    CHECK(codes[1].bits() == 0);
    CHECK(codes[2].bits() == 127);
    inverse[1] = amp::as_view(inverse_a);
    CHECK_THROWS_WITH_AS(amp::fn::compute_scale(amax, scale, inverse, 448.f), doctest::Contains("list 2, tensor 1"),
                         amp::error);
    const std::vector<amp::tensor_view> readonly{amp::as_view(a), amp::as_view(b)};
    CHECK_THROWS_WITH_AS(amp::fn::compute_scale(amax, readonly, readonly, 448.f), doctest::Contains("writable"),
                         amp::error);
    CHECK_THROWS_AS(amp::fn::compute_e8m0(amax, std::span(spans).first(1), 448.f), amp::error);
  }

  TEST_CASE("A9 compute_scale and compute_e8m0 are work of an executor, a task per tensor in any order") {
    struct Backwards {
      std::int64_t chunk = 16;
      bool fused = true;
      mutable std::int64_t tasks = 0, elements = 0;
      [[nodiscard]] amp::simd::target isa() const noexcept { return amp::simd::target::best; }
      void run(std::int64_t items, std::int64_t size, amp::apply::task_ref task) const {
        tasks += items, elements += size;
        while (items > 0) task(--items);
      }
    };
    const std::vector<float> a{1.f, 7.f}, b, c{448.f};
    std::vector<float> scale_a(2), scale_b, scale_c(1), inverse_a(2), inverse_b, inverse_c(1);
    const std::vector<amp::tensor_view> amax{amp::as_view(a), amp::as_view(b), amp::as_view(c)};
    const std::vector<amp::tensor_view> scale{amp::as_view(scale_a), amp::as_view(scale_b), amp::as_view(scale_c)};
    const std::vector<amp::tensor_view> inverse{amp::as_view(inverse_a), amp::as_view(inverse_b),
                                                amp::as_view(inverse_c)};
    const Backwards executor;
    amp::fn::compute_scale(executor, amax, scale, inverse, 448.f);
    CHECK(scale_a == std::vector<float>{448.f, 64.f});
    CHECK(inverse_a == std::vector<float>{1.f / 448.f, 1.f / 64.f});
    CHECK(scale_c == std::vector<float>{1.f});
    CHECK(executor.tasks == 3);
    CHECK(executor.elements == 3);
    std::vector<amp::e8m0> codes_a(2), codes_b, codes_c(1);
    const std::vector<std::span<amp::e8m0>> spans{codes_a, codes_b, codes_c};
    amp::fn::compute_e8m0(executor, amax, spans, 448.f);
    CHECK(codes_a[1].bits() == 127 - 6);
    CHECK(codes_c[0].bits() == 127);
    CHECK(executor.tasks == 6);
    std::vector<amp::e8m0> untouched(2);
    const std::vector<std::span<amp::e8m0>> wrong{untouched, codes_b, codes_b};
    CHECK_THROWS_WITH_AS(amp::fn::compute_e8m0(executor, amax, wrong, 448.f), doctest::Contains("tensor 2"),
                         amp::error);
    CHECK(untouched[0].bits() == amp::e8m0().bits());
  }

  TEST_CASE("Q2 Q7 the amax of lists counts infinities, ignores NaN, names the first tensor with one") {
    std::vector<float> a(1000, 0.5f), b(77, -2.f), empty;
    a[999] = -7.f;
    b[76] = not_a_number;
    std::vector<amp::bfloat16> c{amp::bfloat16(3.f), amp::bfloat16(-infinity)};
    std::vector<amp::e4m3> d{amp::e4m3(-448.f)};
    const std::vector<amp::tensor_view> list{amp::as_view(a), amp::as_view(empty), amp::as_view(b), amp::as_view(c),
                                             amp::as_view(d)};
    for (const auto isa : test_simd::targets()) {
      const auto found = amp::fn::amax(amp::exec::vectorized{.target = isa}, list);
      CHECK(found.per_tensor == std::vector<float>{7.f, 0.f, 2.f, infinity, 448.f});
      CHECK_FALSE(found.finite);
      CHECK(found.first_nonfinite == 2);
    }
    CHECK(amp::fn::amax(amp::exec::scalar{}, std::vector<amp::tensor_view>{amp::as_view(a)}).finite);
  }
}
