#include <doctest/doctest.h>

#include <amp/optim/lamb.hpp>
#include <limits>

#include "optim/golden_run.hpp"
#include "optim/reference.hpp"

using amp::Lamb;

namespace {
constexpr double tolerance = 1e-6;

amp::MasterWeights<Lamb> lamb_over(std::vector<amp::GroupSpec<Lamb>> groups,
                                   amp::exec::any executor = amp::exec::vectorized{}) {
  return amp::MasterWeights<Lamb>(std::move(groups), true, std::move(executor));
}
}  // namespace

TEST_SUITE("optim/lamb") {
  TEST_CASE("F5 LAMB leads where its formula does, in every form") {
    CHECK(golden::difference(Lamb{.lr = 0.05}, "lamb") < tolerance);
    CHECK(golden::difference(Lamb{.lr = 0.05, .mode = amp::decay::l2, .grad_averaging = false}, "lamb_l2") < tolerance);
    CHECK(golden::difference(Lamb{.lr = 0.05, .weight_decay = 0.}, "lamb_without_decay") < tolerance);
    CHECK(golden::difference(Lamb{.lr = 0.05, .weight_decay = 0., .max_grad_norm = 100., .nvlamb = true}, "nvlamb") <
          tolerance);
    CHECK(golden::difference(Lamb{.lr = 0.05}, "lamb_without_decay") > 1e-3);
  }
  TEST_CASE("F5 the ratio is 1 where a norm is 0") {
    reference::Tensors<float> t({4, 4});
    t.w[0].assign(4, 0.f);  // |w| is 0
    t.g[0] = {1.f, -2.f, 3.f, -4.f};
    t.g[1].assign(4, 0.f);  // |u| is 0, without decay
    const auto w1 = t.w[1];
    auto m = lamb_over({{Lamb{.lr = 0.5, .weight_decay = 0., .max_grad_norm = 0., .nvlamb = true}, t.source()}});
    m.step();
    for (std::size_t k = 0; k < 4; ++k)  // u is the sign of the gradient at the first step
      CHECK(t.w[0][k] == doctest::Approx(t.g[0][k] > 0.f ? -0.5 : 0.5).epsilon(1e-5));
    CHECK(t.w[1] == w1);
  }
  TEST_CASE("F5 the norm that clips is that of all groups and formats, and gradients are not written") {
    reference::Tensors<float> a({3}), alone({3});
    reference::Tensors<amp::bfloat16> b({5}, 2);
    b.g[0].assign(5, amp::bfloat16(8.f));
    const auto grads = a.g;
    // eps dominates the root, so that the size of the gradient shows in the step.
    const Lamb o{.lr = 1., .beta1 = 0., .beta2 = 0., .eps = 1e3, .weight_decay = 0.};
    auto both = lamb_over({{o, a.source("a")}, {o, b.source("b")}});
    auto one = lamb_over({{o, alone.source()}});
    const auto start = a.w[0];
    both.step();
    one.step();
    CHECK(a.g == grads);
    double all = 0., own = 0.;
    for (const float g : grads[0]) own += static_cast<double>(g) * static_cast<double>(g);
    all = std::sqrt(own + 5 * 64.), own = std::sqrt(own);
    for (std::size_t i = 0; i < 3; ++i) {
      const double g = static_cast<double>(grads[0][i]) / all,
                   g1 = static_cast<double>(grads[0][i]) / std::fmax(own, 1.);
      CHECK(a.w[0][i] == doctest::Approx(static_cast<double>(start[i]) - g / (std::fabs(g) + 1e3)).epsilon(1e-7));
      CHECK(alone.w[0][i] == doctest::Approx(static_cast<double>(start[i]) - g1 / (std::fabs(g1) + 1e3)).epsilon(1e-7));
    }
  }
  TEST_CASE("F6 low parameters with scaled gradients take the step of fp32 ones with unscaled gradients") {
    reference::Tensors<amp::half> low({1, 7, 64, 333});
    reference::Tensors<float> full({1, 7, 64, 333});
    const Lamb o{.lr = 0.02};
    for (std::size_t i = 0; i < low.w.size(); ++i)
      for (std::size_t k = 0; k < low.w[i].size(); ++k) full.w[i][k] = float(low.w[i][k]);
    auto a = lamb_over({{o, low.source()}});
    auto b = lamb_over({{o, full.source()}});
    for (unsigned step = 1; step <= 3; ++step) {
      low.draw_grads(step);
      for (std::size_t i = 0; i < low.g.size(); ++i) {
        for (std::size_t k = 0; k < low.g[i].size(); ++k) {
          full.g[i][k] = float(low.g[i][k]);
          low.g[i][k] = amp::half(float(low.g[i][k]) * 1024.f);
        }
      }
      REQUIRE_FALSE(a.check(0x1p-10f).overflow);
      a.step(0x1p-10f);
      b.step();
    }
    a.for_each_master([&, i = std::size_t{0}](const amp::MasterView& m) mutable {
      for (std::size_t k = 0; k < m.value.size(); ++k) CHECK(m.value[k] == full.w[i][k]);
      ++i;
    });
    for (std::size_t i = 0; i < low.w.size(); ++i)
      for (std::size_t k = 0; k < low.w[i].size(); ++k) CHECK(low.w[i][k].bits() == amp::half(full.w[i][k]).bits());
  }
  TEST_CASE("F6 rate and counter belong to a group, and an overflow leaves all as it was") {
    reference::Tensors<amp::half> a({8}), b({8});
    auto m = lamb_over({{Lamb{.lr = 0.1}, a.source("a")}, {Lamb{.lr = 0.1}, b.source("b")}});
    m.set_lr(1, 0.);
    const auto kept = b.w;
    m.step();
    for (std::size_t k = 0; k < 8; ++k) CHECK(b.w[0][k].bits() == kept[0][k].bits());
    CHECK(m.group(0).options.lr == 0.1);
    a.g[0][5] = amp::half(std::numeric_limits<float>::infinity());
    const auto before = a.w;
    CHECK(m.check().overflow);
    m.skip();
    for (std::size_t k = 0; k < 8; ++k) CHECK(a.w[0][k].bits() == before[0][k].bits());
    CHECK(m.group(0).step == 1);
  }
  TEST_CASE("F5 equal bits for every executor and thread count, and a step by groups of one tensor each") {
    const std::vector<std::size_t> sizes{70000, 3, 0, 511};
    reference::Tensors<float> a(sizes), b(sizes), c(sizes);
    const Lamb o{.lr = 0.02, .max_grad_norm = 0.};
    auto first = lamb_over({{o, a.source()}}, amp::exec::scalar{.chunk = 333});
    auto second = lamb_over({{o, b.source()}}, amp::exec::threads{3});
    std::vector<amp::GroupSpec<Lamb>> groups;
    auto params = c.params();
    for (auto& p : params) groups.push_back({o, std::make_shared<amp::FixedParams>(std::vector{p}), p.name});
    auto one_by_one = lamb_over(std::move(groups));
    for (int i = 0; i < 2; ++i) first.step(), second.step(), one_by_one.step();
    CHECK(a.w == b.w);
    CHECK(a.w == c.w);
  }
  TEST_CASE("F5 options out of range throw when the group is made") {
    CHECK_THROWS_AS((Lamb::group{Lamb{.lr = -1.}}), amp::error);
    CHECK_THROWS_AS((Lamb::group{Lamb{.beta1 = 1.}}), amp::error);
    CHECK_THROWS_WITH_AS((Lamb::group{Lamb{.max_grad_norm = -1.}}), doctest::Contains("max_grad_norm"), amp::error);
  }
}
