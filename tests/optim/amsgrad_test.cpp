#include <doctest/doctest.h>

#include <amp/optim/adagrad.hpp>
#include <amp/optim/adam.hpp>
#include <limits>
#include <type_traits>

#include "optim/golden_run.hpp"
#include "optim/reference.hpp"

using amp::Adagrad;
using amp::AdamAmsgrad;
using reference::Element;

namespace {
constexpr double tolerance = 1e-6;

auto adagrad(const Adagrad& o) {
  return [o](Element& e, double g) {
    if (o.mode == amp::decay::l2) g += o.weight_decay * e.w;
    e.a += g * g;
    double u = g / (std::sqrt(e.a) + o.eps);
    if (o.mode == amp::decay::decoupled) u += o.weight_decay * e.w;
    e.w -= o.lr * u;
  };
}
}  // namespace

TEST_SUITE("optim/amsgrad") {
  TEST_CASE("F1 AMSGrad leads where torch's does, with L2 and decoupled decay") {
    const AdamAmsgrad l2{.lr = 0.01, .beta2 = 0.5, .weight_decay = 0.1, .mode = amp::decay::l2};
    CHECK(golden::difference(l2, "adam_amsgrad") < tolerance);
    CHECK(golden::difference(AdamAmsgrad{.lr = 0.01, .beta2 = 0.5, .weight_decay = 0.1}, "adamw_amsgrad") < tolerance);
    CHECK(golden::difference(AdamAmsgrad{.lr = 0.01, .beta2 = 0.5, .weight_decay = 0.1}, "adamw") > 1e-3);
  }
  TEST_CASE("F1 who does not ask for AMSGrad pays nothing for it") {
    static_assert(amp::Adam::states == 2 && AdamAmsgrad::states == 3);
    static_assert(std::is_same_v<amp::Adam::Functor, decltype(amp::Adam::functor({}))>);
    reference::Tensors<float> t({100});
    amp::MasterWeights<AdamAmsgrad> m({{AdamAmsgrad{}, t.source()}});
    CHECK(m.moment_bytes() == 3 * 4 * 100);
  }
  TEST_CASE("F1 with a second moment that only grows, AMSGrad is Adam") {
    reference::Tensors<float> t({50});
    const auto start = t.w;
    std::vector<amp::tensor_view> w{amp::as_view(t.w[0])}, g{amp::as_view(t.g[0])};
    std::vector<float> m(50), v(50), top(50);
    std::vector<amp::tensor_view> first{amp::as_view(m)}, second{amp::as_view(v)}, largest{amp::as_view(top)};
    AdamAmsgrad::group group{AdamAmsgrad{.lr = 0.1, .beta2 = 0.999}};
    AdamAmsgrad::next_step(group);
    amp::multi_tensor_apply(amp::exec::scalar{}, AdamAmsgrad::functor(group), amp::lane::inout(w),
                            amp::lane::inout(first), amp::lane::inout(second), amp::lane::inout(largest),
                            amp::lane::in(g));
    CHECK(v == top);
    const auto by_amsgrad = t.w[0];
    t.w = start;
    m.assign(50, 0.f), v.assign(50, 0.f);
    amp::multi_tensor_apply(amp::exec::scalar{}, AdamAmsgrad::functor(group), amp::lane::inout(w),
                            amp::lane::inout(first), amp::lane::inout(second), amp::lane::in(g));
    CHECK(t.w[0] == by_amsgrad);
  }
}

TEST_SUITE("optim/adagrad") {
  TEST_CASE("F4 Adagrad leads where torch's does") {
    CHECK(golden::difference(Adagrad{.lr = 0.01, .weight_decay = 0.1}, "adagrad") < tolerance);
  }
  TEST_CASE("F4 Adagrad equals its formula with both kinds of decay") {
    for (const auto mode : {amp::decay::l2, amp::decay::decoupled}) {
      const Adagrad o{.lr = 0.05, .weight_decay = 0.1, .mode = mode};
      CHECK(reference::difference(o, 8, adagrad(o)) < tolerance);
    }
  }
  TEST_CASE("F4 gradients that are always zero move nothing and stay finite") {
    reference::Tensors<float> t({9});
    for (auto& g : t.g[0]) g = 0.f;
    const auto before = t.w;
    for (const double eps : {1e-10, 0x1p-126}) {
      amp::MasterWeights<Adagrad> m({{Adagrad{.lr = 0.5, .eps = eps}, t.source()}});
      m.step(), m.step();
      CHECK(t.w == before);
    }
  }
  TEST_CASE("F4 F1 options out of range throw when the group is made") {
    CHECK_THROWS_WITH_AS((Adagrad::group{Adagrad{.lr = -1.}}), doctest::Contains("Adagrad: lr must be"), amp::error);
    CHECK_THROWS_AS((Adagrad::group{Adagrad{.eps = 0.}}), amp::error);
    CHECK_THROWS_AS((Adagrad::group{Adagrad{.eps = 1e-50}}), amp::error);  // 0 in fp32
    CHECK_THROWS_AS((Adagrad::group{Adagrad{.lr = 1e39}}), amp::error);    // infinite in fp32
    CHECK_NOTHROW((Adagrad::group{Adagrad{.eps = 0x1p-126}}));
    CHECK_THROWS_AS((Adagrad::group{Adagrad{.weight_decay = std::numeric_limits<double>::infinity()}}), amp::error);
    CHECK_THROWS_AS((AdamAmsgrad::group{AdamAmsgrad{.beta2 = 1.}}), amp::error);
  }
}
