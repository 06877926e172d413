#include <doctest/doctest.h>

#include <algorithm>
#include <amp/nn/fp8_delayed.hpp>
#include <amp/tensor/matrix.hpp>
#include <array>
#include <limits>
#include <span>
#include <vector>

using amp::fp8::amax_choice;
using amp::fp8::delayed_scaling;
using amp::fp8::DelayedScale;

namespace {
constexpr float infinity = std::numeric_limits<float>::infinity();

float after(DelayedScale& state, float amax) {
  state.collect(amax);
  state.update();
  return state.scale().scale;
}
}  // namespace

TEST_SUITE("nn/fp8_delayed") {
  TEST_CASE("Q3 the scale is max / amax of the largest in the history, which rolls by one") {
    DelayedScale state(delayed_scaling<>{.history = 3}, 448.f);
    CHECK(state.scale().scale == 1.f);
    CHECK(after(state, 2.f) == 224.f);
    CHECK(state.history()[0] == 0.f);
    CHECK(state.history()[2] == 2.f);
    CHECK(after(state, 4.f) == 112.f);
    CHECK(after(state, 1.f) == 112.f);  // 4 is remembered
    CHECK(after(state, 1.f) == 112.f);
    CHECK(after(state, 1.f) == 448.f);  // and gone: a history of 3 is the present step and two before it
    CHECK(state.scale().inverse == 1.f / 448.f);
  }

  TEST_CASE("Q3 the most recent amax alone, and a margin, where the recipe says so") {
    DelayedScale state(delayed_scaling<>{.history = 8, .choose = amax_choice::most_recent, .margin = 2}, 57344.f);
    CHECK(after(state, 8.f) == 57344.f / 8.f / 4.f);
    CHECK(after(state, 2.f) == 57344.f / 2.f / 4.f);
    CHECK(DelayedScale(delayed_scaling<>{}, 448.f).history().size() == 1024);
  }

  TEST_CASE(
      "Q3 Q7 an amax of 0 or one that is not finite keeps the scale, an infinite scale becomes the largest number") {
    DelayedScale state(delayed_scaling<>{.history = 4, .choose = amax_choice::most_recent}, 448.f);
    CHECK(after(state, 2.f) == 224.f);
    CHECK(after(state, 0.f) == 224.f);
    CHECK(after(state, infinity) == 224.f);
    CHECK(after(state, 1e-38f) == std::numeric_limits<float>::max());
    CHECK(state.scale().inverse > 0.f);
    DelayedScale longest(delayed_scaling<>{.history = 4}, 448.f);
    CHECK(after(longest, 2.f) == 224.f);
    CHECK(after(longest, infinity) == 224.f);
    CHECK(after(longest, 4.f) == 112.f);  // the infinity is forgotten, it would stay for the whole history
  }

  TEST_CASE("Q3 a step collects the largest of several calls, ranks agree on the largest of all") {
    DelayedScale a(delayed_scaling<>{.history = 2}, 448.f), b(delayed_scaling<>{.history = 2}, 448.f);
    a.collect(1.f), a.collect(7.f), a.collect(3.f), a.collect(std::numeric_limits<float>::quiet_NaN());
    b.collect(2.f);
    const std::array<DelayedScale*, 2> both{&a, &b};
    amp::fp8::update_scales(both, [](std::span<float> amax) {
      CHECK(amax[0] == 7.f);
      amax[0] = std::max(amax[0], 14.f);  // another rank saw more
    });
    CHECK(a.scale().scale == 32.f);
    CHECK(b.scale().scale == 224.f);
    amp::fp8::update_scales(both);
    CHECK(a.scale().scale == 32.f);
  }

  TEST_CASE("Q1 Q3 quantising uses the scale of earlier steps and collects this step's amax in the same pass") {
    const std::vector<float> x{1.f, -2.f, 0.5f, 3.f, 1000.f, -0.25f};
    const auto view = amp::as_matrix(x.data(), 2, 3);
    DelayedScale state(delayed_scaling<>{.history = 2}, 448.f);
    const auto first = amp::fp8::quantize<amp::e4m3>(amp::exec::vectorized{}, state, view);
    CHECK(float(first.code_at(0, 1)) == -2.f);
    CHECK(float(first.code_at(1, 1)) == 448.f);  // saturates: the scale is still 1
    CHECK(first.amax == 1000.f);
    state.update();
    const auto second = amp::fp8::quantize<amp::e4m3>(amp::exec::vectorized{}, state, view);
    CHECK(float(second.code_at(1, 1)) == 448.f);
    CHECK(second.value_at(1, 1) == doctest::Approx(1000.f));
    CHECK(second.scales == std::vector<float>{state.scale().inverse});
  }

  TEST_CASE("Q3 a scale that 2^margin takes out of fp32's normal range stays at its edge") {
    DelayedScale tiny(delayed_scaling<>{.history = 1, .margin = 200}, 448.f);
    tiny.collect(448.f), tiny.update();
    CHECK(tiny.scale().scale == 0x1p-126f);
    CHECK(tiny.scale().inverse == 0x1p126f);
    DelayedScale huge(delayed_scaling<>{.history = 1, .margin = -200}, 448.f);
    huge.collect(448.f), huge.update();
    CHECK(huge.scale().scale == std::numeric_limits<float>::max());
  }

  TEST_CASE("Q3 the state saves and loads, and refuses a history of another length and what no state holds") {
    DelayedScale state(delayed_scaling<>{.history = 3}, 448.f);
    after(state, 5.f);
    DelayedScale restored(delayed_scaling<>{.history = 3}, 448.f);
    restored.load(state.scale().scale, state.history());
    CHECK(after(restored, 1.f) == after(state, 1.f));
    DelayedScale other(delayed_scaling<>{.history = 4}, 448.f);
    CHECK_THROWS_WITH_AS(other.load(1.f, state.history()), doctest::Contains("3 entries for one of 4"), amp::error);
    CHECK_THROWS_AS(DelayedScale(delayed_scaling<>{.history = 0}, 448.f), amp::error);
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    const auto before = restored.scale().scale;
    for (const float scale : {0.f, -1.f, nan, std::numeric_limits<float>::infinity()}) {
      CHECK_THROWS_WITH_AS(restored.load(scale, state.history()), doctest::Contains("a number above 0"), amp::error);
    }
    for (const float amax : {-1.f, nan}) {
      const std::vector<float> history{0.f, amax, 1.f};
      CHECK_THROWS_WITH_AS(restored.load(1.f, history), doctest::Contains("negative or not finite"), amp::error);
    }
    CHECK(restored.scale().scale == before);
  }
}
