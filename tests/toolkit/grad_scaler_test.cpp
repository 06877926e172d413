#include <doctest/doctest.h>

#include <amp/optim/sgd.hpp>
#include <amp/session/grad_scaler.hpp>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "support/errors.hpp"

using test_support::has;
using test_support::message_of;

using amp::GradScaler;
using amp::half;
using amp::Verdict;

namespace {
constexpr float infinity = std::numeric_limits<float>::infinity();

/// Two weights and their optimizer.
struct Unit {
  explicit Unit(bool masters = true)
      : weights(
            {{amp::Sgd{.lr = 0.5}, std::make_shared<amp::FixedParams>(std::vector{amp::make_param("w", value, grad)})}},
            masters) {}
  std::vector<half> value{half(1.f), half(2.f)}, grad{half(0.f), half(0.f)};
  amp::MasterWeights<amp::Sgd> weights;
  void backward(float scaled) { grad = {half(0.25f * scaled), half(0.5f * scaled)}; }
};
/// An optimizer that unscales and skips in its own kernel.
struct SelfScaled {
  float scale = 0.f;
  int steps = 0;
  bool found = false, bad = false;
  [[nodiscard]] amp::GradCheck check(float) const { return {1., bad, bad ? "w" : ""}; }
  void step_scaled(float grad_scale, bool found_inf) { scale = grad_scale, found = found_inf, ++steps; }
};
GradScaler<> at(float scale) { return GradScaler<>({.scale = {.init = scale}}); }
}  // namespace

TEST_SUITE("toolkit/grad_scaler") {
  TEST_CASE("S11 scale, unscale, step and update give the step of unscaled gradients") {
    auto scaler = at(1024.f);
    Unit u;
    const float scaled = scaler.scale(half(1.f));
    CHECK(scaled == 1024.f);
    u.backward(scaled);
    const auto seen = scaler.unscale(u.weights);
    CHECK(seen.norm == doctest::Approx(std::sqrt(0.0625 + 0.25)));
    CHECK(scaler.step(u.weights) == Verdict::apply);
    scaler.update();
    CHECK(float(u.value[0]) == 1.f - 0.125f);
    CHECK(float(u.value[1]) == 2.f - 0.25f);
    CHECK(scaler.scaler().policy().tracker == 1);
  }
  TEST_CASE("S11 step unscales by itself, and clipping between unscale and step does not depend on the scale") {
    std::vector<float> results;
    for (const float scale : {1.f, 4096.f}) {
      auto scaler = at(scale);
      Unit u;
      u.backward(scaler.scale(1.f));
      scaler.unscale(u.weights);
      CHECK(scaler.clip_grad_norm(u.weights, 0.25) == doctest::Approx(std::sqrt(0.3125)));
      CHECK(scaler.clip_grad_norm(u.weights, 0.25) == doctest::Approx(0.25).epsilon(1e-5));
      scaler.step(u.weights);
      scaler.update();
      results.push_back(float(u.value[0]));
    }
    CHECK(results[0] == results[1]);
  }
  TEST_CASE("S11 any optimizer's overflow backs off the shared scale, but only that optimizer is skipped") {
    auto scaler = at(64.f);
    Unit good, bad;
    const float scaled = scaler.scale(1.f);
    good.backward(scaled), bad.backward(scaled);
    bad.grad[1] = half(infinity);
    CHECK(scaler.step(good.weights) == Verdict::apply);
    CHECK(scaler.step(bad.weights) == Verdict::skip);
    scaler.update();
    CHECK(scaler.scale() == 32.f);
    CHECK(float(good.value[0]) == 0.875f);
    CHECK(float(bad.value[0]) == 1.f);
  }
  TEST_CASE("S11 calls out of order are errors that say what is wrong") {
    auto scaler = at(64.f);
    Unit u;
    CHECK(has(message_of([&] { scaler.unscale(u.weights); }), "unscale() before scale()"));
    CHECK(has(message_of([&] { scaler.step(u.weights); }), "step() before scale()"));
    CHECK(has(message_of([&] { scaler.update(); }), "no recorded check"));
    u.backward(scaler.scale(1.f));
    CHECK(has(message_of([&] { scaler.clip_grad_norm(u.weights, 1.); }), "between unscale() and step()"));
    CHECK(has(message_of([&] { scaler.update(); }), "no recorded check"));
    scaler.unscale(u.weights);
    CHECK(has(message_of([&] { scaler.unscale(u.weights); }), "unscale() twice"));
    scaler.step(u.weights);
    CHECK(has(message_of([&] { scaler.step(u.weights); }), "step() twice"));
    CHECK(has(message_of([&] { scaler.unscale(u.weights); }), "unscale() after step()"));
    CHECK(has(message_of([&] { scaler.step(u.weights); }), "grad_scaler_test.cpp"));
    scaler.update();
    u.backward(scaler.scale(1.f));
    CHECK(scaler.step(u.weights) == Verdict::apply);
  }
  TEST_CASE("S11 update takes a new scale, which has to be usable") {
    auto scaler = at(64.f);
    scaler.update(8.f);
    CHECK(scaler.scale() == 8.f);
    CHECK_THROWS_AS(scaler.update(0.f), amp::error);
    CHECK(scaler.scale() == 8.f);
  }
  TEST_CASE("S11 B15 fp16 gradients without masters are refused in words unless allowed, with masters they are taken") {
    Unit bare(false);
    auto scaler = at(64.f);
    bare.backward(scaler.scale(1.f));
    const auto text = message_of([&] { scaler.unscale(bare.weights); });
    CHECK(has(text, "the gradient of w is fp16 and its parameter has no fp32 master (O3)"));
    GradScaler<> permissive({.scale = {.init = 64.f}, .allow_fp16 = true});
    bare.backward(permissive.scale(1.f));
    CHECK(permissive.step(bare.weights) == Verdict::apply);
    CHECK(float(bare.value[0]) == 0.875f);
  }
  TEST_CASE("S11 gradients spoiled after unscale are not detected") {
    auto scaler = at(64.f);
    Unit u;
    u.backward(scaler.scale(1.f));
    scaler.unscale(u.weights);
    u.grad[0] = half(infinity);
    CHECK(scaler.step(u.weights) == Verdict::apply);
    scaler.update();
    CHECK(scaler.scale() == 64.f);
  }
  TEST_CASE("S11 an optimizer that takes scale and flag itself gets them and is never skipped here") {
    auto scaler = at(64.f);
    SelfScaled opt;
    opt.bad = true;
    (void)scaler.scale(1.f);
    CHECK(scaler.step(opt) == Verdict::apply);
    CHECK(opt.scale == 64.f);
    CHECK(opt.found);
    scaler.update();
    CHECK(scaler.scale() == 32.f);
    CHECK(opt.steps == 1);
  }
  TEST_CASE("S11 F2 a factor of clipping reaches an optimizer that unscales by itself in what it divides by") {
    for (const bool enabled : {true, false}) {
      GradScaler<> scaler({.scale = {.init = 64.f}, .enabled = enabled});
      SelfScaled opt;
      (void)scaler.scale(1.f);
      scaler.unscale(opt);
      CHECK(scaler.clip_grad_norm(opt, 0.25) == 1.);
      scaler.step(opt);
      CHECK(opt.scale == doctest::Approx((enabled ? 64. : 1.) * 4.).epsilon(1e-5));
      scaler.update();
      (void)scaler.scale(1.f);
      scaler.step(opt);
      CHECK(opt.scale == (enabled ? 64.f : 1.f));
    }
  }
  TEST_CASE("S13 the flag is combined over ranks before anything is decided") {
    int calls = 0;
    GradScaler<> scaler({.scale = {.init = 64.f}, .any_reduce = [&](bool) { return ++calls, true; }});
    Unit u;
    u.backward(scaler.scale(1.f));
    CHECK(scaler.step(u.weights) == Verdict::skip);
    scaler.update();
    CHECK(calls == 1);
    CHECK(scaler.scale() == 32.f);
  }
  TEST_CASE("L3 a disabled scaler is a plain step, and has an empty state that an enabled one refuses") {
    GradScaler<> off({.enabled = false});
    Unit u;
    CHECK(off.scale(2.f) == 2.f);
    u.backward(off.scale(1.f));
    off.unscale(u.weights);
    CHECK(off.step(u.weights) == Verdict::apply);
    off.update();
    CHECK(float(u.value[0]) == 0.875f);
    CHECK(off.scale() == 1.f);
    CHECK(off.state_dict().empty());
    off.load_state_dict({});
    auto on = at(64.f);
    CHECK_THROWS_AS(on.load_state_dict(off.state_dict()), amp::error);
    u.backward(1.f);
    CHECK(off.clip_grad_norm(u.weights, 1e-3) == doctest::Approx(std::sqrt(0.3125)));
    off.step(u.weights);
    CHECK(float(u.value[0]) == doctest::Approx(0.875).epsilon(1e-3));
  }
  TEST_CASE("L3 clipping twice multiplies the factors, disabled or not, and a limit that is not positive is refused") {
    std::vector<float> results;
    for (const bool enabled : {true, false}) {
      GradScaler<> scaler({.scale = {.init = 64.f}, .enabled = enabled});
      Unit u;
      u.backward(scaler.scale(1.f));
      scaler.unscale(u.weights);
      CHECK(scaler.clip_grad_norm(u.weights, 0.25) == doctest::Approx(std::sqrt(0.3125)));
      CHECK(scaler.clip_grad_norm(u.weights, 5.) == doctest::Approx(0.25).epsilon(1e-5));
      for (const double bad : {0., -1., std::numeric_limits<double>::quiet_NaN()})
        CHECK(has(message_of([&] { scaler.clip_grad_norm(u.weights, bad); }), "max_norm must be positive"));
      scaler.step(u.weights);
      results.push_back(float(u.value[1]));
    }
    CHECK(results[0] == results[1]);
    CHECK(results[0] == doctest::Approx(2. - 0.5 * 0.5 * 0.25 / std::sqrt(0.3125)).epsilon(1e-3));
  }
  TEST_CASE("S14 the state of the protocol's scaler goes there and back") {
    auto a = at(64.f), b = at(1.f);
    a.update(3.f);
    b.load_state_dict(a.state_dict());
    CHECK(b.scale() == 3.f);
    CHECK(b.state_dict() == a.state_dict());
    GradScaler<amp::HysteresisScale> h({.scale = {.init = 4.f, .hysteresis = 2}});
    CHECK(find(h.state_dict(), "hysteresis_tracker")->number == "2");
  }
}
