#include <doctest/doctest.h>

#include <amp/loss_scaler.hpp>
#include <bit>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "support/errors.hpp"

using test_support::has;
using test_support::message_of;

using amp::LossScaler;
using Apex = LossScaler<amp::DynamicScale>;

namespace {
std::vector<Apex> scalers(std::initializer_list<float> starts) {
  std::vector<Apex> all;
  for (const float init : starts) all.emplace_back(amp::DynamicScale{.init = init, .window = 100});
  return all;
}
std::span<const Apex> view(const std::vector<Apex>& v) { return v; }
}  // namespace

TEST_SUITE("scaling/forms") {
  TEST_CASE("S4 S14 apex's form has no hysteresis tracker, so loading it leaves the tracker alone") {
    LossScaler saved{amp::HysteresisScale{.init = 64.f, .hysteresis = 3}};
    LossScaler loaded{amp::HysteresisScale{.init = 8.f, .hysteresis = 3}};
    load(loaded, to_apex(saved));
    loaded.update(true);
    loaded.update(true);
    CHECK(loaded.scale() == 64.f);
    loaded.update(true);
    CHECK(loaded.scale() == 32.f);
  }
  TEST_CASE("S14 apex's form lists loss scale and clean counter of each scaler under apex's keys") {
    auto all = scalers({8.f, 1024.f});
    all[1].update(false), all[1].update(false);
    CHECK(
        amp::to_text(amp::apex_dict(view(all))) ==
        R"({"loss_scaler0": {"loss_scale": 8.0, "unskipped": 0}, "loss_scaler1": {"loss_scale": 1024.0, "unskipped": 2}})");
  }
  TEST_CASE("S14 torch's form has GradScaler's keys, and the hysteresis tracker where there is one") {
    LossScaler t{amp::TorchScale{.init = 4.f, .growth = 1.1, .backoff = 0.7, .interval = 7}};
    t.update(false);
    CHECK(amp::to_text(amp::to_dict(amp::to_torch(t))) ==
          R"({"scale": 4.0, "growth_factor": 1.1, "backoff_factor": 0.7, "growth_interval": 7, "_growth_tracker": 1})");
    LossScaler h{amp::HysteresisScale{.hysteresis = 3}};
    h.update(true);
    CHECK(amp::to_text(amp::to_dict(amp::to_torch(h))).ends_with(R"("_growth_tracker": 0, "hysteresis_tracker": 2})"));
  }
  TEST_CASE("S14 what Python's json prints of either form is read") {
    auto all = scalers({1.f});
    amp::load_apex_dict<amp::DynamicScale>(
        all, amp::parse_dict("{\"loss_scaler0\":{\"loss_scale\":32768.0,\n \"unskipped\": 17}}"));
    CHECK(to_apex(all[0]) == amp::apex_scaler_state{32768.f, 17});
    LossScaler t{amp::TorchScale{}};
    amp::load_torch_dict(
        t, amp::parse_dict(R"({"scale": 0.25, "growth_factor": 3, "backoff_factor": 0.5, "growth_interval": 20,
                               "_growth_tracker": 19})"));
    CHECK(t.scale() == 0.25f);
    t.update(false);
    CHECK(t.scale() == 0.75f);
  }
  TEST_CASE("S14 the round trip by text is bit exact for every kind of scale") {
    std::mt19937 random(3);
    for (int i = 0; i < 20000; ++i) {
      const float scale = std::bit_cast<float>(static_cast<std::uint32_t>(random()) & 0x7FFFFFFFu);
      if (!amp::usable_scale(scale)) continue;
      const auto dict = amp::to_dict({{scale, i}});
      const auto back = amp::read_apex(amp::parse_dict(amp::to_text(dict))).state.at(0);
      REQUIRE(std::bit_cast<std::uint32_t>(back.loss_scale) == std::bit_cast<std::uint32_t>(scale));
      REQUIRE(back.unskipped == i);
    }
    const amp::torch_scaler_state s{0x1.fffffep127f, 1.1, 0.3, std::numeric_limits<std::int64_t>::max(), 5, 2};
    CHECK(amp::read_torch(amp::parse_dict(amp::to_text(amp::to_dict(s)))).state == s);
  }
  TEST_CASE("S14 fewer or more entries than scalers warn, and those that fit are loaded in order") {
    std::vector<std::string> lines;
    const auto warn = [&](std::string_view line) { lines.emplace_back(line); };
    const auto saved = scalers({2.f, 4.f, 8.f});
    auto two = scalers({1.f, 1.f});
    amp::load_apex_dict<amp::DynamicScale>(two, amp::apex_dict(view(saved)), warn);
    CHECK(two[0].scale() == 2.f);
    CHECK(two[1].scale() == 4.f);
    auto four = scalers({1.f, 1.f, 1.f, 1.f});
    amp::load_apex_dict<amp::DynamicScale>(four, amp::apex_dict(view(saved)), warn);
    CHECK(four[2].scale() == 8.f);
    CHECK(four[3].scale() == 1.f);
    REQUIRE(lines.size() == 2);
    CHECK(has(lines[0], "holds 3 loss scalers, 2 are used"));
    auto three = scalers({1.f, 1.f, 1.f});
    amp::load_apex_dict<amp::DynamicScale>(three, amp::apex_dict(view(saved)), warn);
    CHECK(lines.size() == 2);
  }
  TEST_CASE("S14 foreign keys are an error after the valid ones are loaded") {
    auto one = scalers({1.f});
    const auto text = message_of([&] {
      amp::load_apex_dict<amp::DynamicScale>(
          one, amp::parse_dict(R"({"epoch": 3, "loss_scaler0": {"loss_scale": 64.0, "unskipped": 1}, "x": {}})"));
    });
    CHECK(has(text, "these keys belong to none: \"epoch\", \"x\""));
    CHECK(one[0].scale() == 64.f);
    LossScaler t{amp::TorchScale{}};
    const auto said = message_of([&] {
      amp::load_torch_dict(t, amp::parse_dict(R"({"scale": 2.0, "growth_factor": 2.0, "backoff_factor": 0.5,
                                                  "growth_interval": 9, "_growth_tracker": 0, "lr": 1})"));
    });
    CHECK(has(said, "\"lr\""));
    CHECK(t.scale() == 2.f);
  }
  TEST_CASE("S14 an empty state, one that lacks a number and one with an unusable scale are errors") {
    auto one = scalers({8.f});
    LossScaler t{amp::TorchScale{}};
    CHECK(has(message_of([&] { amp::load_apex_dict<amp::DynamicScale>(one, {}); }), "saved by a disabled one"));
    CHECK(has(message_of([&] { amp::load_torch_dict(t, amp::parse_dict("{}")); }), "saved by a disabled one"));
    CHECK(has(message_of([&] { amp::load_torch_dict(t, amp::parse_dict(R"({"scale": 2.0})")); }), "\"growth_factor\""));
    CHECK_THROWS_AS(amp::load_apex_dict<amp::DynamicScale>(
                        one, amp::parse_dict(R"({"loss_scaler0": {"loss_scale": 0.0, "unskipped": 0}})")),
                    amp::error);
    CHECK(one[0].scale() == 8.f);
    CHECK_THROWS_AS(load(t, {1.f, 0.5, 0.5, 10, 0}), amp::error);
    CHECK(t.scale() == 65536.f);
  }
  TEST_CASE("S14 a scaler of a policy chosen at run time has torch's form if the policy has") {
    LossScaler<amp::AnyScale> a{amp::HysteresisScale{.init = 4.f, .hysteresis = 2}}, b{amp::HysteresisScale{}};
    a.update(true);
    load(b, amp::to_torch(a));
    CHECK(b.state().counters == a.state().counters);
    CHECK(b.scale() == 4.f);
    LossScaler<amp::AnyScale> torch{amp::TorchScale{.init = 4.f}};
    load(torch, {16.f, 2., 0.5, 10, 3});
    CHECK(amp::to_torch(torch) == amp::torch_scaler_state{16.f, 2., 0.5, 10, 3});
    LossScaler<amp::AnyScale> apex{amp::DynamicScale{}};
    CHECK_THROWS_AS((void)amp::to_torch(apex), amp::error);
    CHECK_THROWS_AS(load(apex, amp::to_torch(a)), amp::error);
  }
  TEST_CASE("a text that is no such dictionary is refused with the place") {
    for (const char* text : {"", "{", "[]", "{\"a\" 1}", "{\"a\": }", "{\"a\": \"b\"}", "{\"a\": 1} x",
                             "{\"a\\\"\": 1}", "{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":1}}}}}"})
      CHECK_MESSAGE(has(message_of([&] { (void)amp::parse_dict(text); }), "there should be"), text);
    const auto dict = amp::parse_dict(R"({"a": 1.5, "b": 7.0, "c": 1e3})");
    CHECK_THROWS_AS((void)amp::read_number<std::int64_t>(dict[0]), amp::error);
    CHECK(amp::read_number<std::int64_t>(dict[1]) == 7);
    CHECK(amp::read_number<double>(dict[2]) == 1000.);
  }
}
