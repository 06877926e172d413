#include <doctest/doctest.h>

#include <amp/optim/adam.hpp>
#include <limits>

#include "optim/golden_run.hpp"
#include "optim/reference.hpp"

using amp::Adam;
using amp::HfAdamW;
using reference::Element;

namespace {
/// F1 in double.
auto adam(const Adam& o) {
  return [o](Element& e, double g) {
    if (o.mode == amp::decay::l2) g += o.weight_decay * e.w;
    e.a = o.beta1 * e.a + (1 - o.beta1) * g;
    e.b = o.beta2 * e.b + (1 - o.beta2) * g * g;
    const double c1 = o.bias_correction ? 1 - std::pow(o.beta1, e.t) : 1;
    const double c2 = o.bias_correction ? 1 - std::pow(o.beta2, e.t) : 1;
    double u = (e.a / c1) / (std::sqrt(e.b / c2) + o.eps);
    if (o.mode == amp::decay::decoupled) u += o.weight_decay * e.w;
    e.w -= o.lr * u;
  };
}
auto hf_adamw(const HfAdamW& o) {
  return [o](Element& e, double g) {
    e.a = o.beta1 * e.a + (1 - o.beta1) * g;
    e.b = o.beta2 * e.b + (1 - o.beta2) * g * g;
    double rate = o.lr;
    if (o.correct_bias) rate *= std::sqrt(1 - std::pow(o.beta2, e.t)) / (1 - std::pow(o.beta1, e.t));
    e.w -= rate * e.a / (std::sqrt(e.b) + o.eps);
    if (o.weight_decay > 0) e.w -= o.lr * o.weight_decay * e.w;
  };
}
constexpr double tolerance = 1e-6;
}  // namespace

TEST_SUITE("optim/adam") {
  TEST_CASE("F1 B41 Adam and AdamW lead where torch's do") {
    CHECK(golden::difference(Adam{.lr = 0.01, .weight_decay = 0.1, .mode = amp::decay::l2}, "adam") < tolerance);
    CHECK(golden::difference(Adam{.lr = 0.01, .weight_decay = 0.1}, "adamw") < tolerance);
    CHECK(golden::difference(Adam{.lr = 0.01, .weight_decay = 0.1}, "adam") > 1e-3);
    CHECK(golden::difference(Adam{.lr = 0.01, .beta2 = 0.5, .weight_decay = 0.1}, "adamw_amsgrad") > 1e-3);
  }
  TEST_CASE("F1 eps may stand within the root") {
    const Adam o{.lr = 0.01, .eps = 1e-3, .eps_at = amp::eps_place::inside_root};
    CHECK(golden::difference(o, "adam_eps_in_root") < tolerance);
    CHECK(golden::difference(Adam{.lr = 0.01, .eps = 1e-3}, "adam_eps_in_root") > 1e-5);
  }
  TEST_CASE("F12 Hugging Face's AdamW leads where its formula does") {
    const HfAdamW o{.lr = 0.01, .beta2 = 0.98, .weight_decay = 0.1};
    CHECK(golden::difference(o, "hf_adamw") < tolerance);
  }
  TEST_CASE("F1 B41 decoupled and L2 decay each equal their formula") {
    for (const auto mode : {amp::decay::decoupled, amp::decay::l2}) {
      const Adam o{.lr = 0.01, .weight_decay = 0.1, .mode = mode};
      CHECK(reference::difference(o, 5, adam(o)) < tolerance);
    }
    const Adam decoupled{.lr = 0.01, .weight_decay = 0.1}, l2{.lr = 0.01, .weight_decay = 0.1, .mode = amp::decay::l2};
    CHECK(reference::difference(decoupled, 5, adam(l2)) > 1e-4);
  }
  TEST_CASE("F1 Adam without bias correction and with other betas equals its formula") {
    const Adam plain{.lr = 0.02, .bias_correction = false};
    CHECK(reference::difference(plain, 7, adam(plain)) < tolerance);
    const Adam other{.lr = 0.02, .beta1 = 0.5, .beta2 = 0.98, .eps = 1e-6};
    CHECK(reference::difference(other, 20, adam(other)) < tolerance);
  }
  TEST_CASE("F1 without decay the two modes give the same bits") {
    reference::Tensors<float> a({100}), b({100});
    amp::MasterWeights<Adam> first({{Adam{.lr = 0.1}, a.source()}});
    amp::MasterWeights<Adam> second({{Adam{.lr = 0.1, .mode = amp::decay::l2}, b.source()}});
    for (int i = 0; i < 5; ++i) first.step(), second.step();
    CHECK(a.w == b.w);
  }
  TEST_CASE("F12 Hugging Face's AdamW equals its formula, with and without bias correction") {
    for (const double wd : {0., 0.1}) {
      for (const bool correct : {true, false}) {
        const HfAdamW o{.lr = 0.01, .beta2 = 0.98, .weight_decay = wd, .correct_bias = correct};
        CHECK(reference::difference(o, 10, hf_adamw(o)) < tolerance);
      }
    }
  }
  TEST_CASE("a zero gradient moves nothing but the decay") {
    reference::Tensors<float> t({9});
    for (auto& g : t.g[0]) g = 0.f;
    const auto before = t.w;
    amp::MasterWeights<HfAdamW> m({{HfAdamW{.lr = 0.5}, t.source()}});
    m.step();
    CHECK(t.w == before);
  }
  TEST_CASE("options out of range throw when the optimizer is prepared") {
    reference::Tensors<float> t({4});
    const auto prepare = [&](const auto& o) {
      using Opt = std::decay_t<decltype(o)>;
      amp::MasterWeights<Opt> m({{o, t.source()}});
    };
    CHECK_THROWS_AS(prepare(Adam{.lr = -1.}), amp::error);
    CHECK_THROWS_AS(prepare(Adam{.lr = std::numeric_limits<double>::infinity()}), amp::error);
    CHECK_THROWS_AS(prepare(Adam{.beta1 = 1.}), amp::error);
    CHECK_THROWS_AS(prepare(Adam{.beta2 = -0.1}), amp::error);
    CHECK_THROWS_AS(prepare(Adam{.eps = -1e-8}), amp::error);
    CHECK_THROWS_AS(prepare(Adam{.weight_decay = -0.1}), amp::error);
    CHECK_THROWS_AS(prepare(HfAdamW{.lr = std::numeric_limits<double>::quiet_NaN()}), amp::error);
    CHECK_THROWS_AS(prepare(HfAdamW{.beta2 = 1.}), amp::error);
  }
}
