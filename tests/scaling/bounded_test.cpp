#include <doctest/doctest.h>

#include <amp/loss_scaler.hpp>
#include <amp/scaling/policies.hpp>
#include <vector>

using amp::Bounded;
using amp::LossScaler;

namespace {
/// A user's policy that would reach 0 and infinity if it could.
struct Reckless {
  static constexpr bool skips = true;
  [[nodiscard]] float initial() const noexcept { return 1.f; }
  float next(float scale, bool overflow) noexcept { return overflow ? scale * 0x1p-60f : scale * 0x1p60f; }
};
struct Thirds {
  static constexpr bool skips = true;
  [[nodiscard]] float initial() const noexcept { return 9.f; }
  float next(float scale, bool overflow) noexcept { return overflow ? scale / 3.f : scale; }
};
}  // namespace

TEST_SUITE("scaling/bounded") {
  TEST_CASE("S5 bounds hold around any policy, and each update that a bound held back is counted") {
    LossScaler s{Bounded<amp::TorchScale>{.policy = {.init = 4.f, .interval = 1}, .min = 1.f, .max = 8.f}};
    for (int i = 0; i < 3; ++i) s.update(false);
    CHECK(s.scale() == 8.f);
    CHECK(s.policy().at_max == 2);
    for (int i = 0; i < 5; ++i) s.update(true);
    CHECK(s.scale() == 1.f);
    CHECK(s.policy().at_min == 2);
    CHECK(s.stuck_in_a_row() == 2);
  }
  TEST_CASE("S5 the first scale lies inside the bounds, and bounds that contradict one another throw") {
    CHECK(LossScaler{Bounded<amp::TorchScale>{.max = 16.f}}.scale() == 16.f);
    CHECK(LossScaler{Bounded<Thirds>{.min = 10.f}}.scale() == 10.f);
    CHECK_THROWS_AS((LossScaler{Bounded<amp::TorchScale>{.min = 4.f, .max = 2.f}}), amp::error);
    CHECK_THROWS_AS(LossScaler{Bounded<amp::TorchScale>{.min = -1.f}}, amp::error);
    CHECK_THROWS_AS(LossScaler{Bounded<amp::TorchScale>{.max = 0.f}}, amp::error);
    CHECK_THROWS_AS((LossScaler{Bounded<amp::TorchScale>{.policy = {.interval = 0}}}), amp::error);
  }
  TEST_CASE("S5 a policy chosen at run time takes bounds, and its kind still says whether an overflow skips") {
    LossScaler s{Bounded<amp::AnyScale>{.policy = amp::HysteresisScale{.init = 4.f, .hysteresis = 1}, .min = 2.f}};
    CHECK(s.update(true) == amp::Verdict::skip);
    CHECK(s.update(true) == amp::Verdict::skip);
    CHECK(s.scale() == 2.f);
    LossScaler still{Bounded<amp::AnyScale>{.policy = amp::StaticScale{4.f}}};
    CHECK(still.update(true) == amp::Verdict::apply);
  }
  TEST_CASE("S5 counters of policy and bounds are saved together") {
    LossScaler a{Bounded<amp::DynamicScale>{.policy = {.init = 2.f, .window = 9}, .min = 1.f}}, b = a;
    a.update(true), a.update(true), a.update(false);
    b.load(a.state());
    CHECK(b.state() == a.state());
    CHECK(b.policy().policy.clean == 1);
    CHECK(b.policy().at_min == 1);
    LossScaler<Bounded<Thirds>> t;
    t.update(true);
    CHECK(t.state().counters == std::array<std::int64_t, 2>{0, 0});
  }
  TEST_CASE("S2 B01 a scale whose reciprocal is not finite is never reached, whatever a user's policy says") {
    LossScaler<Reckless> s;
    for (const bool overflow : {true, true, true, true, false, false, false, false, false, false}) {
      s.update(overflow);
      REQUIRE(amp::usable_scale(s.scale()));
    }
    CHECK(s.scale() == 0x1p120f);
  }
  TEST_CASE("S5 a policy needs nothing but a start, a rule and whether it skips") {
    static_assert(amp::ScalePolicy<Thirds> && amp::ScalePolicy<Bounded<Thirds>>);
    static_assert(sizeof(LossScaler<amp::NoScale>) <= sizeof(LossScaler<amp::StaticScale>));
    constexpr bool still = [] {
      LossScaler<amp::NoScale> none;
      return none.update(true) == amp::Verdict::apply && none.updates() == 0;
    }();
    static_assert(still);
    CHECK(still);
  }
}
