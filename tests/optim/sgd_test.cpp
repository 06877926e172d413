#include <doctest/doctest.h>

#include <amp/optim/adamax.hpp>
#include <amp/optim/sgd.hpp>

#include "optim/golden_run.hpp"
#include "optim/reference.hpp"

using amp::Sgd;
using reference::Element;

namespace {
auto sgd(const Sgd& o) {
  return [o](Element& e, double g) {
    double d = g;
    if (!o.decay_after_momentum) d += o.weight_decay * e.w;
    if (o.momentum != 0) {
      e.a = e.t == 1 ? d : o.momentum * e.a + (1 - o.dampening) * d;
      d = o.nesterov ? d + o.momentum * e.a : e.a;
    }
    if (o.decay_after_momentum) d += o.weight_decay * e.w;
    e.w -= o.lr * d;
  };
}
constexpr double tolerance = 1e-6;
}  // namespace

TEST_SUITE("optim/sgd") {
  TEST_CASE("F3 SGD leads where torch's does") {
    CHECK(golden::difference(Sgd{.lr = 0.1, .weight_decay = 0.1}, "sgd") < tolerance);
    const Sgd damped{.lr = 0.1, .momentum = 0.9, .dampening = 0.25, .weight_decay = 0.1};
    CHECK(golden::difference(damped, "sgd_momentum") < tolerance);
    const Sgd nesterov{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true};
    CHECK(golden::difference(nesterov, "sgd_nesterov") < tolerance);
  }
  TEST_CASE("F3 SGD equals its formula in every form") {
    for (const Sgd& o : {Sgd{.lr = 0.1}, Sgd{.lr = 0.1, .weight_decay = 0.1}, Sgd{.lr = 0.05, .momentum = 0.9},
                         Sgd{.lr = 0.05, .momentum = 0.9, .dampening = 0.5, .weight_decay = 0.1},
                         Sgd{.lr = 0.05, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true},
                         Sgd{.lr = 0.05, .momentum = 0.9, .weight_decay = 0.1, .decay_after_momentum = true}}) {
      CHECK(reference::difference(o, 6, sgd(o)) < tolerance);
    }
  }
  TEST_CASE("F3 the first gradient of a tensor becomes its momentum, even when others started earlier") {
    const auto source = std::make_shared<reference::Partial>();
    amp::MasterWeights<Sgd> m({{Sgd{.lr = 1., .momentum = 0.5, .dampening = 0.5}, source}});
    m.step();
    CHECK(source->w == std::vector<float>{0.f, 1.f});
    source->second_has_grad = true;
    m.step();  // p0: b = 0.5*1 + 0.5*1; p1: b = 1, its first
    CHECK(source->w == std::vector<float>{-1.f, 0.f});
    m.step();  // p1: b = 0.5*1 + 0.5*1
    CHECK(source->w == std::vector<float>{-2.f, -1.f});
  }
  TEST_CASE("F3 nesterov needs momentum and no dampening") {
    reference::Tensors<float> t({4});
    const auto prepare = [&](const Sgd& o) { amp::MasterWeights<Sgd> m({{o, t.source()}}); };
    CHECK_THROWS_AS(prepare(Sgd{.nesterov = true}), amp::error);
    CHECK_THROWS_AS(prepare(Sgd{.momentum = 0.9, .dampening = 0.1, .nesterov = true}), amp::error);
    CHECK_THROWS_AS(prepare(Sgd{.lr = -1.}), amp::error);
    CHECK_THROWS_AS(prepare(Sgd{.momentum = -0.5}), amp::error);
    CHECK_NOTHROW(prepare(Sgd{.momentum = 0.9, .nesterov = true}));
  }
}

TEST_SUITE("optim/adamax") {
  TEST_CASE("F13 Adamax leads where torch's does") {
    CHECK(golden::difference(amp::Adamax{.lr = 0.01, .weight_decay = 0.1}, "adamax") < tolerance);
  }
  TEST_CASE("F13 Adamax equals its formula") {
    for (const double wd : {0., 0.1}) {
      const amp::Adamax o{.lr = 0.01, .weight_decay = wd};
      CHECK(reference::difference(o, 10, [&](Element& e, double g) {
              g += o.weight_decay * e.w;
              e.a = o.beta1 * e.a + (1 - o.beta1) * g;
              e.b = std::fmax(o.beta2 * e.b, std::fabs(g) + o.eps);
              e.w -= o.lr / (1 - std::pow(o.beta1, e.t)) * e.a / e.b;
            }) < tolerance);
    }
  }
  TEST_CASE("a NaN gradient is not lost in the maximum") {
    reference::Tensors<float> t({20});
    t.g[0][3] = std::nanf("");
    CHECK_THROWS_AS((amp::Adamax::group{amp::Adamax{.eps = 1e-50}}), amp::error);
    amp::MasterWeights<amp::Adamax> m({{amp::Adamax{}, t.source()}});
    m.step();
    CHECK(std::isnan(t.w[0][3]));
    CHECK_FALSE(std::isnan(t.w[0][4]));
  }
}
