#include <doctest/doctest.h>

#include <amp/scaling/resident.hpp>
#include <random>
#include <vector>

TEST_SUITE("scaling/resident") {
  TEST_CASE("S15 a resident scaler moves exactly as one on the host") {
    std::mt19937 random(11);
    amp::LossScaler host{amp::HysteresisScale{.init = 64.f, .interval = 3, .hysteresis = 2}};
    amp::resident_scale resident{host};
    for (int i = 0; i < 300; ++i) {
      const bool overflow = random() % 5 == 0;
      if (overflow) resident.found_inf = 1;
      CHECK(resident.update() == host.update(overflow));
      CHECK(resident.scale == host.scale());
      CHECK(resident.inverse == host.inverse());
      CHECK(resident.found_inf == 0);
    }
    CHECK(resident.scaler.state() == host.state());
  }
  TEST_CASE("S15 a step looks at the flag only where the policy skips") {
    const amp::resident_scale dynamic{amp::LossScaler<amp::DynamicScale>{}};
    CHECK(dynamic.gate() == &dynamic.found_inf);
    const amp::resident_scale constant{amp::LossScaler<amp::StaticScale>{amp::StaticScale{8.f}}};
    CHECK(constant.gate() == nullptr);
    CHECK(constant.inverse == 0.125f);
  }
  TEST_CASE("S15 the update is a kernel of one thread, usable in constant expressions") {
    constexpr float scale = [] {
      amp::resident_scale<amp::DynamicScale> s{amp::LossScaler{amp::DynamicScale{.init = 8.f}}};
      s.found_inf = 1;
      amp::update_resident_scale{}(s);
      return s.scale;
    }();
    static_assert(scale == 4.f);
    CHECK(scale == 4.f);
  }
}
