#include <doctest/doctest.h>

#include <amp/loss_scaler.hpp>
#include <amp/scaling/dynamic.hpp>
#include <random>
#include <vector>

namespace {
constexpr bool ok = false, inf = true;

template <class P>
std::vector<float> run(P policy, const std::vector<bool>& overflows) {
  std::vector<float> scales;
  float scale = policy.initial();
  for (const bool overflow : overflows) scales.push_back(scale = policy.next(scale, overflow));
  return scales;
}
}  // namespace

TEST_SUITE("scaling/hysteresis") {
  TEST_CASE("S4 the scale is kept until the forgiven overflows are used up, then every further one backs off") {
    const amp::HysteresisScale p{.init = 64.f, .interval = 100, .hysteresis = 3};
    CHECK(run(p, {inf, inf, inf, inf, inf}) == std::vector<float>{64.f, 64.f, 32.f, 16.f, 8.f});
  }
  TEST_CASE("S4 a clean step gives the whole hysteresis back") {
    const amp::HysteresisScale p{.init = 64.f, .interval = 100, .hysteresis = 2};
    CHECK(run(p, {inf, ok, inf, ok, inf, inf}) == std::vector<float>{64.f, 64.f, 64.f, 64.f, 64.f, 32.f});
  }
  TEST_CASE("S4 a forgiven overflow zeroes the growth tracker, and the step is skipped all the same") {
    const amp::HysteresisScale p{.init = 64.f, .interval = 3, .hysteresis = 2};
    CHECK(run(p, {ok, ok, inf, ok, ok, ok}) == std::vector<float>{64.f, 64.f, 64.f, 64.f, 64.f, 128.f});
    amp::LossScaler scaler{p};
    CHECK(scaler.update(true) == amp::Verdict::skip);
    CHECK(scaler.scale() == 64.f);
    CHECK(scaler.update(true) == amp::Verdict::skip);
    CHECK(scaler.scale() == 32.f);
  }
  TEST_CASE("S4 with hysteresis 1 it moves as TorchScale does") {
    std::mt19937 random(7);
    std::vector<bool> overflows;
    for (int i = 0; i < 500; ++i) overflows.push_back(random() % 4 == 0);
    CHECK(run(amp::HysteresisScale{.init = 8.f, .interval = 3, .hysteresis = 1}, overflows) ==
          run(amp::TorchScale{.init = 8.f, .interval = 3}, overflows));
  }
  TEST_CASE("S4 a growth of 1 is legal here and not in TorchScale") {
    CHECK(run(amp::HysteresisScale{.init = 8.f, .growth = 1., .interval = 1}, {ok, ok}) ==
          std::vector<float>{8.f, 8.f});
    CHECK_NOTHROW(amp::LossScaler{amp::HysteresisScale{.growth = 1.}});
    CHECK_THROWS_AS(amp::LossScaler{amp::TorchScale{.growth = 1.}}, amp::error);
  }
  TEST_CASE("S4 the tracker is saved and loaded, and options out of range throw") {
    amp::LossScaler a{amp::HysteresisScale{.init = 64.f, .hysteresis = 3}}, b = a;
    a.update(true);
    CHECK(a.state().counters == std::array<std::int64_t, 2>{0, 2});
    b.load(a.state());
    for (const bool overflow : {true, true, true, false, true}) {
      CHECK(a.update(overflow) == b.update(overflow));
      CHECK(a.scale() == b.scale());
    }
    CHECK_THROWS_AS(amp::LossScaler{amp::HysteresisScale{.hysteresis = 0}}, amp::error);
    CHECK_THROWS_AS((amp::LossScaler{amp::HysteresisScale{.hysteresis = 2, .left = 3}}), amp::error);
    CHECK_THROWS_AS(amp::LossScaler{amp::HysteresisScale{.backoff = 1.}}, amp::error);
    CHECK_THROWS_AS(amp::LossScaler{amp::HysteresisScale{.growth = 0.5}}, amp::error);
    CHECK_THROWS_AS(amp::LossScaler{amp::HysteresisScale{.interval = 0}}, amp::error);
    CHECK_THROWS_AS(amp::LossScaler{amp::HysteresisScale{.init = 0.f}}, amp::error);
    CHECK_THROWS_AS((amp::LossScaler{amp::HysteresisScale{.interval = 5, .tracker = 5}}), amp::error);
  }
  TEST_CASE("S3 growth and backoff multiply in double and round once, as GradScaler's update does") {
    const double growth = 1.1;
    CHECK(run(amp::TorchScale{.init = 3.f, .growth = growth, .interval = 1}, {ok})[0] ==
          static_cast<float>(3.0 * growth));
    CHECK(run(amp::TorchScale{.init = 3.f, .backoff = 0.7}, {inf})[0] == static_cast<float>(3.0 * 0.7));
  }
}
