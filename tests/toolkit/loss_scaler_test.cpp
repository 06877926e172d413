#include <doctest/doctest.h>

#include <amp/loss_scaler.hpp>
#include <bit>
#include <cstdint>
#include <limits>

using amp::LossScaler;
using amp::Verdict;

namespace {
/// A user's policy: thirds, no saved counters, no validation.
struct Thirds {
  static constexpr bool skips = true;
  [[nodiscard]] float initial() const noexcept { return 9.f; }
  float next(float scale, bool overflow) noexcept { return overflow ? scale / 3.f : scale; }
};
}  // namespace

TEST_SUITE("toolkit/loss_scaler") {
  TEST_CASE("S2 an overflow halves the scale and skips, window clean steps double it") {
    LossScaler scaler{amp::DynamicScale{.init = 8.f, .window = 2}};
    CHECK(scaler.update(true) == Verdict::skip);
    CHECK(scaler.scale() == 4.f);
    CHECK(scaler.update(false) == Verdict::apply);
    CHECK(scaler.update(false) == Verdict::apply);
    CHECK(scaler.scale() == 8.f);
    CHECK(scaler.inverse() == 0.125f);
  }
  TEST_CASE("S1 a static scale reports an overflow and does not skip") {
    LossScaler scaler{amp::StaticScale{128.f}};
    CHECK(scaler.update(true) == Verdict::apply);
    CHECK(scaler.overflows() == 1);
    CHECK(scaler.skips_in_a_row() == 0);
    CHECK(scaler.scale() == 128.f);
    LossScaler<amp::AnyScale> any{amp::StaticScale{2.f}};
    CHECK(any.update(true) == Verdict::apply);
  }
  TEST_CASE("B01 skips in a row are counted, a clean step ends the row, and a scale stuck at its bound is told") {
    LossScaler scaler{amp::DynamicScale{.init = 4.f, .min = 1.f}};
    for (int i = 0; i < 4; ++i) scaler.update(true);
    CHECK(scaler.scale() == 1.f);
    CHECK(scaler.skips_in_a_row() == 4);
    CHECK(scaler.stuck_in_a_row() == 2);
    scaler.update(false);
    CHECK(scaler.skips_in_a_row() == 0);
    CHECK(scaler.stuck_in_a_row() == 0);
    CHECK(scaler.overflows() == 4);
    CHECK(scaler.updates() == 5);
  }
  TEST_CASE("B01 S4 overflows that are forgiven, or that a static scale lets pass, are none that a bound held back") {
    const auto stuck = [](auto scaler, int overflows) {
      for (int i = 0; i < overflows; ++i) scaler.update(true);
      return scaler.stuck_in_a_row();
    };
    const amp::HysteresisScale tolerant{.init = 4.f, .hysteresis = 3};
    CHECK(stuck(LossScaler{tolerant}, 2) == 0);
    CHECK(stuck(LossScaler{tolerant}, 5) == 0);
    CHECK(stuck(LossScaler<amp::AnyScale>{tolerant}, 2) == 0);
    using Bounded = amp::Bounded<amp::HysteresisScale>;
    CHECK(stuck(LossScaler{Bounded{.policy = tolerant, .min = 4.f}}, 2) == 0);
    CHECK(stuck(LossScaler{Bounded{.policy = tolerant, .min = 4.f}}, 5) == 3);
    CHECK(stuck(LossScaler{amp::Bounded<amp::AnyScale>{.policy = tolerant, .min = 4.f}}, 5) == 3);
    CHECK(stuck(LossScaler{amp::StaticScale{128.f}}, 5) == 0);
    CHECK(stuck(LossScaler<amp::AnyScale>{amp::StaticScale{128.f}}, 5) == 0);
    CHECK(LossScaler{amp::StaticScale{128.f}}.update(true) == Verdict::apply);
  }
  TEST_CASE("B01 two thousand overflows leave a positive finite scale") {
    LossScaler scaler;
    for (int i = 0; i < 2000; ++i) CHECK(scaler.update(true) == Verdict::skip);
    CHECK(scaler.scale() == 0x1p-127f);
    CHECK(scaler.skips_in_a_row() == 2000);
  }
  TEST_CASE("parameters out of range throw with the caller's place") {
    CHECK_THROWS_AS(LossScaler{amp::DynamicScale{.init = 0.f}}, amp::error);
    CHECK_THROWS_AS(LossScaler{amp::DynamicScale{.factor = 1.f}}, amp::error);
    CHECK_THROWS_AS(LossScaler{amp::DynamicScale{.window = 0}}, amp::error);
    CHECK_THROWS_AS((LossScaler{amp::DynamicScale{.max = 1.f, .min = 2.f}}), amp::error);
    CHECK_THROWS_AS(LossScaler{amp::DynamicScale{.min = -1.f}}, amp::error);
    CHECK_THROWS_AS(LossScaler{amp::StaticScale{-2.f}}, amp::error);
    CHECK_THROWS_AS(LossScaler{amp::StaticScale{std::numeric_limits<float>::infinity()}}, amp::error);
    CHECK_THROWS_AS(LossScaler{amp::TorchScale{.growth = 1.f}}, amp::error);
    CHECK_THROWS_AS(LossScaler{amp::TorchScale{.backoff = 1.f}}, amp::error);
    CHECK_THROWS_AS(LossScaler{amp::TorchScale{.interval = 0}}, amp::error);
    CHECK_THROWS_AS(LossScaler<amp::AnyScale>{amp::StaticScale{0.f}}, amp::error);
    try {
      LossScaler bad{amp::DynamicScale{.window = -1}};
    } catch (const amp::error& e) {
      CHECK(std::string(e.what()).find("loss_scaler_test.cpp") != std::string::npos);
      CHECK(std::string(e.what()).find("window") != std::string::npos);
    }
  }
  TEST_CASE("S14 state and load carry a scaler bit for bit, counters too") {
    LossScaler a{amp::DynamicScale{.init = 100.f, .factor = 3.f, .window = 3}};
    for (const bool overflow : {false, true, false, false}) a.update(overflow);
    LossScaler b{amp::DynamicScale{.init = 1.f, .factor = 3.f, .window = 3}};
    b.load(a.state());
    CHECK(b.state() == a.state());
    CHECK(std::bit_cast<std::uint32_t>(b.scale()) == std::bit_cast<std::uint32_t>(a.scale()));
    for (const bool overflow : {false, false, true, false, false, false}) {
      CHECK(a.update(overflow) == b.update(overflow));
      CHECK(a.scale() == b.scale());
    }
  }
  TEST_CASE("S14 a saved scale of 0 or infinity is refused and leaves the scaler as it was") {
    LossScaler scaler{amp::DynamicScale{.init = 8.f}};
    auto bad = scaler.state();
    for (const float s : {0.f, -1.f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      bad.scale = s;
      CHECK_THROWS_AS(scaler.load(bad), amp::error);
    }
    CHECK(scaler.scale() == 8.f);
  }
  TEST_CASE("S14 the forms of apex and of torch go there and back") {
    LossScaler a{amp::DynamicScale{.init = 8.f, .window = 5}};
    a.update(false), a.update(false);
    const auto apex = to_apex(a);
    CHECK(apex == amp::apex_scaler_state{8.f, 2});
    LossScaler b{amp::DynamicScale{.window = 5}};
    load(b, apex);
    CHECK(to_apex(b) == apex);
    CHECK_THROWS_AS(load(b, amp::apex_scaler_state{8.f, -1}), amp::error);
    CHECK(to_apex(b) == apex);
    LossScaler t{amp::TorchScale{.init = 4.f, .growth = 3.f, .backoff = 0.25f, .interval = 7}};
    t.update(false);
    const auto torch = to_torch(t);
    CHECK(torch == amp::torch_scaler_state{4.f, 3., 0.25, 7, 1});
    CHECK(to_torch(amp::from_torch(torch)) == torch);
    CHECK_THROWS_AS((void)amp::from_torch({4.f, 0.5, 0.25, 7, 1}), amp::error);
  }
  TEST_CASE("S5 a user's policy is enough") {
    LossScaler<Thirds> scaler;
    CHECK(scaler.update(true) == Verdict::skip);
    CHECK(scaler.scale() == 3.f);
    CHECK(to_apex(scaler) == amp::apex_scaler_state{3.f, 0});
    auto other = LossScaler<Thirds>{};
    other.load(scaler.state());
    CHECK(other.scale() == 3.f);
  }
  TEST_CASE("a scaler is usable in constant expressions") {
    constexpr float scale = [] {
      LossScaler s{amp::DynamicScale{.init = 8.f, .window = 1}};
      s.update(false);
      return s.scale();
    }();
    static_assert(scale == 16.f);
    CHECK(scale == 16.f);
  }
}
