#include <doctest/doctest.h>

#include <amp/optim/larc.hpp>
#include <amp/optim/sgd.hpp>

#include "optim/golden_run.hpp"
#include "optim/reference.hpp"

using amp::Larc;
using amp::Sgd;

namespace {
constexpr double tolerance = 1e-6;
const Sgd inner{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1};
}  // namespace

TEST_SUITE("optim/larc") {
  TEST_CASE("F8 LARC around SGD leads where its formula does, clipping and scaling") {
    CHECK(golden::difference(Larc{inner}, "larc_clip") < tolerance);
    CHECK(golden::difference(Larc{inner, {.clip = false}}, "larc_scale") < tolerance);
    CHECK(golden::difference(Larc{inner}, "larc_scale") > 1e-4);
  }
  TEST_CASE("F8 a tensor without weight or gradient norm is stepped on its gradient, without decay") {
    reference::Tensors<float> t({2, 2});
    t.w = {{0.f, 0.f}, {1.f, -1.f}};
    t.g = {{1.f, 2.f}, {0.f, 0.f}};
    amp::MasterWeights<Larc<Sgd>> m({{Larc{Sgd{.lr = 0.5, .weight_decay = 0.5}}, t.source()}});
    m.step();
    CHECK(t.w[0] == std::vector<float>{-0.5f, -1.f});
    CHECK(t.w[1] == std::vector<float>{1.f, -1.f});
  }
  TEST_CASE("F8 the decay of the options is what it was after each step, and set_lr reaches the inner optimizer") {
    reference::Tensors<float> t({4});
    amp::MasterWeights<Larc<Sgd>> m({{Larc{inner, {.trust = 1e6}}, t.source()}});
    m.step();
    CHECK(m.group(0).options.weight_decay == 0.1);
    const auto before = t.w;
    m.set_lr(0, 0.);
    m.step();
    CHECK(t.w == before);
    CHECK(m.group(0).step == 2);
  }
  TEST_CASE("F8 a rate too small for fp32 stops the tensor, it does not let the whole gradient through") {
    reference::Tensors<float> t({2});
    t.w = {{1e-4f, 2e-4f}}, t.g = {{1e16f, 2e16f}};
    const auto w = t.w;
    amp::MasterWeights<Larc<Sgd>> m({{Larc{Sgd{.lr = 1.}, {.trust = 1e-30}}, t.source()}});
    m.step();
    CHECK(t.w == w);
  }
  TEST_CASE("F8 a rate at its limit is the inner optimizer with L2 decay") {
    reference::Tensors<float> a({30}), b({30});
    amp::MasterWeights<Larc<Sgd>> larc({{Larc{inner, {.trust = 1e9}}, a.source()}});
    amp::MasterWeights<Sgd> sgd({{inner, b.source()}});
    for (int i = 0; i < 4; ++i) larc.step(), sgd.step();
    CHECK(a.w == b.w);
  }
  TEST_CASE("F8 without momentum the dampening has no effect, as in the optimizer alone") {
    reference::Tensors<float> a({30}), b({30});
    const Sgd plain{.lr = 0.1, .dampening = 0.5};
    amp::MasterWeights<Larc<Sgd>> larc({{Larc{plain, {.trust = 1e9}}, a.source()}});
    amp::MasterWeights<Sgd> sgd({{plain, b.source()}});
    for (int i = 0; i < 3; ++i) larc.step(), sgd.step();
    CHECK(a.w == b.w);
  }
  TEST_CASE("F8 options out of range throw, those of the optimizer within too") {
    using group = Larc<Sgd>::group;
    CHECK_THROWS_WITH_AS((group{Larc{inner, {.trust = 0.}}}), doctest::Contains("Larc: trust"), amp::error);
    CHECK_THROWS_AS((group{Larc{inner, {.eps = -1.}}}), amp::error);
    CHECK_THROWS_WITH_AS((group{Larc{Sgd{.lr = -1.}}}), doctest::Contains("Sgd: lr"), amp::error);
  }
}
