#include <doctest/doctest.h>

#include <amp/scaling/policies.hpp>
#include <cmath>
#include <limits>
#include <vector>

namespace {

/// The scale after each step; true: that step overflowed.
template <class P>
std::vector<float> run(P policy, const std::vector<bool>& overflows) {
  std::vector<float> scales;
  float scale = policy.initial();
  for (const bool overflow : overflows) scales.push_back(scale = policy.next(scale, overflow));
  return scales;
}
constexpr bool ok = false, inf = true;

}  // namespace

TEST_SUITE("scaling/policies") {
  TEST_CASE("B10 S2 the scale doubles after a whole window, and an overflow starts the count again") {
    const auto scales = run(amp::DynamicScale{.init = 8.f, .window = 3}, {ok, ok, ok, inf, ok, ok, ok});
    CHECK(scales == std::vector<float>{8.f, 8.f, 16.f, 8.f, 8.f, 8.f, 16.f});
  }
  TEST_CASE("B10 the scale is capped at max, and the counter is 0 after growth and after an overflow") {
    amp::DynamicScale p{.init = 8.f, .window = 2, .max = 20.f};
    CHECK(run(p, {ok, ok, ok, ok, ok, ok}) == std::vector<float>{8.f, 16.f, 16.f, 20.f, 20.f, 20.f});
    p.next(8.f, false);
    CHECK(p.clean == 1);
    p.next(8.f, false);
    CHECK(p.clean == 0);
    p.next(16.f, false);
    p.next(16.f, true);
    CHECK(p.clean == 0);
  }
  TEST_CASE("S2 the defaults are apex's: 2^16, factor 2, window 2000, at most 2^24, no minimum") {
    amp::DynamicScale p;
    CHECK(p.initial() == 65536.f);
    CHECK(p.window == 2000);
    CHECK(amp::DynamicScale{.init = 0x1p30f}.initial() == 0x1p24f);
    float scale = p.initial();
    for (int i = 0; i < 1999; ++i) scale = p.next(scale, false);
    CHECK(scale == 65536.f);
    CHECK(p.next(scale, false) == 131072.f);
    scale = 0x1p24f;
    for (int i = 0; i < 2000; ++i) scale = p.next(scale, false);
    CHECK(scale == 0x1p24f);
  }
  TEST_CASE("B03 the scale falls below 1 by default, and not below a minimum that was asked for") {
    CHECK(run(amp::DynamicScale{.init = 2.f}, {inf, inf, inf}) == std::vector<float>{1.f, 0.5f, 0.25f});
    CHECK(run(amp::DynamicScale{.init = 2.f, .min = 0.75f}, {inf, inf, inf}) == std::vector<float>{1.f, 0.75f, 0.75f});
  }
  TEST_CASE("B01 no run of overflows reaches a scale of 0 or one whose reciprocal is not finite") {
    const auto never = [](auto policy) {
      float scale = policy.initial();
      for (int i = 0; i < 2000; ++i) {
        scale = policy.next(scale, true);
        REQUIRE(amp::usable_scale(scale));
        REQUIRE(std::isfinite(amp::inverse_scale(scale)));
      }
      return scale;
    };
    CHECK(never(amp::DynamicScale{}) == 0x1p-127f);
    CHECK(never(amp::TorchScale{}) == 0x1p-127f);
    CHECK(never(amp::AnyScale{amp::DynamicScale{.factor = 3.f}}) > 0.f);
  }
  TEST_CASE("S3 torch's rules: backoff, growth, no bounds, and no growth to infinity") {
    CHECK(run(amp::TorchScale{.init = 4.f, .interval = 3}, {ok, ok, ok, inf, ok, ok, ok}) ==
          std::vector<float>{4.f, 4.f, 8.f, 4.f, 4.f, 4.f, 8.f});
    CHECK(run(amp::TorchScale{.init = 4.f, .growth = 1.5f, .backoff = 0.25f, .interval = 1}, {ok, inf, inf}) ==
          std::vector<float>{6.f, 1.5f, 0.375f});
    amp::TorchScale p{.init = 0x1p127f, .interval = 2};
    CHECK(p.next(0x1p127f, false) == 0x1p127f);
    CHECK(p.tracker == 1);
    CHECK(p.next(0x1p127f, false) == 0x1p127f);
    CHECK(p.tracker == 0);
  }
  TEST_CASE("S1 a static scale and no scale never move and never skip") {
    CHECK(run(amp::StaticScale{128.f}, {ok, inf, ok}) == std::vector<float>{128.f, 128.f, 128.f});
    CHECK(run(amp::NoScale{}, {ok, inf}) == std::vector<float>{1.f, 1.f});
    CHECK_FALSE(amp::StaticScale::skips);
    CHECK_FALSE(amp::NoScale::skips);
  }
  TEST_CASE("S5 AnyScale does what the policy that it holds does") {
    CHECK(run(amp::AnyScale{amp::DynamicScale{.init = 8.f, .window = 2}}, {ok, ok, inf}) ==
          std::vector<float>{8.f, 16.f, 8.f});
    CHECK(amp::AnyScale{amp::DynamicScale{}}.skips_now());
    CHECK_FALSE(amp::AnyScale{amp::StaticScale{2.f}}.skips_now());
    CHECK_FALSE(amp::AnyScale{}.skips_now());
    amp::AnyScale p{amp::TorchScale{.interval = 5}};
    p.set_counters({3});
    CHECK(p.counters()[0] == 3);
    REQUIRE(p.as<amp::TorchScale>() != nullptr);
    CHECK(p.as<amp::TorchScale>()->tracker == 3);
    CHECK(p.as<amp::DynamicScale>() == nullptr);
  }
  TEST_CASE("S2 a scale is usable if it and its fp32 reciprocal are finite and positive") {
    CHECK(amp::usable_scale(1.f));
    CHECK(amp::usable_scale(std::numeric_limits<float>::max()));
    CHECK(amp::usable_scale(0x1p-127f));
    CHECK_FALSE(amp::usable_scale(0x1p-128f));
    CHECK_FALSE(amp::usable_scale(0.f));
    CHECK_FALSE(amp::usable_scale(-1.f));
    CHECK_FALSE(amp::usable_scale(std::numeric_limits<float>::infinity()));
    CHECK_FALSE(amp::usable_scale(std::numeric_limits<float>::quiet_NaN()));
  }
  TEST_CASE("S12 the reciprocal is computed in fp64 and rounded once") {
    CHECK(amp::inverse_scale(3.f) == static_cast<float>(1.0 / 3.0));
    CHECK(amp::inverse_scale(65536.f) == 0x1p-16f);
  }
}
