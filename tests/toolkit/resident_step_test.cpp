#include <doctest/doctest.h>

#include <amp/apply/exec.hpp>
#include <amp/fn/l2norm.hpp>
#include <amp/optim/capturable.hpp>
#include <amp/scaling/resident.hpp>
#include <limits>
#include <vector>

namespace {
/// Adam on one half tensor with an fp32 master, told nothing by the host but where the numbers lie.
struct Run {
  amp::resident_scale<amp::DynamicScale> scale{amp::LossScaler{amp::DynamicScale{.init = 64.f, .window = 2}}};
  std::vector<float> master{1.f, 2.f, 3.f}, m = std::vector<float>(3), v = std::vector<float>(3);
  std::vector<amp::half> low{amp::half(1.f), amp::half(2.f), amp::half(3.f)}, grad = std::vector<amp::half>(3);
  float lr = 0.125f;
  std::int64_t step = 0;

  void iterate(bool poison) {
    for (std::size_t i = 0; i < 3; ++i) grad[i] = amp::half(0.25f * static_cast<float>(i + 1) * scale.scale);
    if (poison) grad[2] = amp::half(std::numeric_limits<float>::infinity());
    const amp::tensor_view w[] = {amp::as_view(master)}, m1[] = {amp::as_view(m)}, m2[] = {amp::as_view(v)},
                           g[] = {amp::as_view(grad)}, copy[] = {amp::as_view(low)};
    if (!amp::fn::l2norm(amp::exec::vectorized{}, amp::tensor_list(g)).finite) scale.found_inf = 1;
    amp::capturable_step(amp::exec::vectorized{}, amp::Adam{}, {&lr, &step, scale.gate(), &scale.inverse},
                         {w, m1, m2, g, copy});
    amp::update_resident_scale{}(scale);
  }
};
}  // namespace

TEST_SUITE("toolkit/resident_step") {
  TEST_CASE(
      "S15 steps read scale and flag where they lie, skip on an overflow, and the host reads nothing between them") {
    Run clean, spoiled;
    clean.iterate(false);
    spoiled.iterate(true);
    CHECK(spoiled.master == std::vector<float>{1.f, 2.f, 3.f});
    CHECK(spoiled.step == 0);
    CHECK(spoiled.scale.scale == 32.f);
    spoiled.iterate(false);
    CHECK(spoiled.master == clean.master);
    CHECK(spoiled.m == clean.m);
    CHECK(spoiled.step == 1);
    for (std::size_t i = 0; i < 3; ++i) CHECK(float(spoiled.low[i]) == float(amp::half(clean.master[i])));
    spoiled.iterate(false);
    CHECK(spoiled.scale.scale == 64.f);
    CHECK(spoiled.scale.scaler.overflows() == 1);
  }
}
