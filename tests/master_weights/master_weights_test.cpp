#include <doctest/doctest.h>

#include <amp/fn/scale.hpp>
#include <amp/master_weights.hpp>
#include <amp/optim/adam.hpp>
#include <amp/optim/clip.hpp>
#include <amp/optim/sgd.hpp>
#include <cmath>
#include <limits>

#include "master_weights/instances.hpp"

using amp::Adam;
using amp::bfloat16;
using amp::half;
using amp::MasterWeights;
using amp::Sgd;
using reference::Tensors;
using test_masters::group;

namespace {
constexpr float infinity = std::numeric_limits<float>::infinity();

template <class T>
std::vector<float> widened(const std::vector<T>& v) {
  return {v.begin(), v.end()};
}
template <class Opt>
std::vector<std::vector<float>> masters_of(const MasterWeights<Opt>& m) {
  std::vector<std::vector<float>> all;
  for (const auto& p : m.master_params())
    all.emplace_back(static_cast<const float*>(p.value), static_cast<const float*>(p.value) + p.size);
  return all;
}
}  // namespace

TEST_SUITE("master_weights/master_weights") {
  TEST_CASE_TEMPLATE("masters start as the exact values, and every step leaves low = round(master)", T, half,
                     bfloat16) {
    Tensors<T> t({1, 31, 500});
    MasterWeights<Adam> m(group(Adam{.lr = 0.01}, t));
    for (std::size_t i = 0; i < 3; ++i) CHECK(masters_of(m)[i] == widened(t.w[i]));
    const void* address = t.w[1].data();
    for (unsigned step = 0; step < 5; ++step) {
      t.draw_grads(step);
      m.step();
      for (std::size_t i = 0; i < 3; ++i) {
        const auto master = masters_of(m)[i];
        for (std::size_t k = 0; k < master.size(); ++k) CHECK(float(t.w[i][k]) == float(T(master[k])));
      }
    }
    CHECK(t.w[1].data() == address);
  }
  TEST_CASE("masters step as fp32 parameters do on the same gradients, bit for bit") {
    Tensors<bfloat16> low({257});
    Tensors<float> wide({257});
    for (std::size_t i = 0; i < 257; ++i) wide.w[0][i] = float(low.w[0][i]);
    MasterWeights<Adam> a(group(Adam{.lr = 0.01, .weight_decay = 0.1}, low)),
        b(group(Adam{.lr = 0.01, .weight_decay = 0.1}, wide));
    for (unsigned step = 0; step < 10; ++step) {
      low.draw_grads(step);
      for (std::size_t i = 0; i < 257; ++i) wide.g[0][i] = float(low.g[0][i]);
      a.step(), b.step();
    }
    CHECK(masters_of(a)[0] == wide.w[0]);
  }
  TEST_CASE("B44 with masters small updates add up, without them a bf16 weight of 1 does not move") {
    const auto after_1000 = [](bool masters) {
      std::vector<bfloat16> w{bfloat16(1.f)}, g{bfloat16(-1.f)};
      const auto source = std::make_shared<amp::FixedParams>(std::vector{amp::make_param("w", w, g)});
      MasterWeights<Sgd> m({{Sgd{.lr = 1e-4}, source}}, masters);
      for (int i = 0; i < 1000; ++i) m.step();
      return float(w[0]);
    };
    CHECK(after_1000(false) == 1.f);
    CHECK(after_1000(true) == doctest::Approx(1.1f).epsilon(0.004));
  }
  TEST_CASE(
      "unscale, clip and step in one pass give the bits of the separate calls where the scale is a power of two") {
    Tensors<bfloat16> fused({40, 300});
    Tensors<float> separate({40, 300});
    for (std::size_t i = 0; i < 2; ++i)
      for (std::size_t k = 0; k < fused.w[i].size(); ++k) separate.w[i][k] = float(fused.w[i][k]);
    MasterWeights<Adam> a(group(Adam{.lr = 0.01}, fused)), b(group(Adam{.lr = 0.01}, separate));
    for (unsigned step = 0; step < 4; ++step) {
      fused.draw_grads(step);
      for (std::size_t i = 0; i < 2; ++i)
        for (std::size_t k = 0; k < fused.g[i].size(); ++k) separate.g[i][k] = float(fused.g[i][k]) * 0x1p-10f;
      const double norm = a.check(0x1p-10f).norm;
      const double limit = norm / 2.;
      CHECK(amp::clip_grad_norm(separate.params(), limit) == doctest::Approx(norm).epsilon(1e-12));
      a.step(0x1p-10f, static_cast<float>(amp::clip_factor(norm, limit)));
      b.step();
    }
    CHECK(masters_of(a)[0] == separate.w[0]);
    CHECK(masters_of(a)[1] == separate.w[1]);
  }
  TEST_CASE("a step over all tensors equals the tensors stepped one by one, bit for bit") {
    Tensors<bfloat16> together({9, 100, 33}), apart({9, 100, 33});
    MasterWeights<Adam> all(group(Adam{.lr = 0.1}, together));
    std::vector<amp::GroupSpec<Adam>> specs;
    for (auto& p : apart.params())
      specs.push_back({Adam{.lr = 0.1}, std::make_shared<amp::FixedParams>(std::vector{p})});
    MasterWeights<Adam> one_by_one(std::move(specs));
    for (int i = 0; i < 3; ++i) all.step(), one_by_one.step();
    CHECK(masters_of(all) == masters_of(one_by_one));
  }
  TEST_CASE("groups keep their own options, rates and counters, an empty group counts too") {
    Tensors<float> a({4}), b({4});
    MasterWeights<Sgd> m({{Sgd{.lr = 1.}, a.source("a"), "first"},
                          {Sgd{.lr = 0.5}, b.source("b"), "second"},
                          {Sgd{}, std::make_shared<amp::FixedParams>(std::vector<amp::Param>{}), "empty"}});
    a.w[0] = b.w[0] = {1.f, 1.f, 1.f, 1.f};
    a.g[0] = b.g[0] = {1.f, 1.f, 1.f, 1.f};
    m.step();
    CHECK(a.w[0][0] == 0.f);
    CHECK(b.w[0][0] == 0.5f);
    m.set_lr(1, 0.25);
    m.step();
    CHECK(b.w[0][0] == 0.25f);
    CHECK(m.group(2).step == 2);
    CHECK(m.group_name(1) == "second");
    CHECK_THROWS_AS(m.set_lr(0, -1.), amp::error);
    CHECK_THROWS_AS(m.set_lr(3, 1.), amp::error);
    CHECK(m.group(0).options.lr == 1.);
  }
  TEST_CASE("parameters without a gradient, or that do not train, keep value and state") {
    std::vector<float> w{1.f, 1.f, 1.f}, g{1.f, 1.f, 1.f};
    std::vector<amp::Param> params;
    for (std::size_t i = 0; i < 3; ++i)
      params.push_back({.name = "p" + std::to_string(i), .value = &w[i], .grad = i == 1 ? nullptr : &g[i], .size = 1});
    params[2].requires_grad = false;
    MasterWeights<Adam> m({{Adam{.lr = 0.1, .weight_decay = 0.5}, std::make_shared<amp::FixedParams>(params)}});
    m.step();
    CHECK(w[0] != 1.f);
    CHECK(w[1] == 1.f);
    CHECK(w[2] == 1.f);
    amp::StateDict state;
    m.save(state);
    CHECK(state.contains("exp_avg.p0"));
    CHECK_FALSE(state.contains("exp_avg.p1"));
    CHECK_FALSE(state.contains("master.p2"));
  }
  TEST_CASE("the check names the first tensor that is not finite, over formats and groups") {
    Tensors<bfloat16> low({5, 6});
    Tensors<float> wide({7});
    MasterWeights<Sgd> m({{Sgd{}, low.source("low")}, {Sgd{}, wide.source("wide")}});
    CHECK_FALSE(m.check().overflow);
    CHECK(m.check().first_bad.empty());
    wide.g[0][6] = std::nanf("");
    CHECK(m.check().overflow);
    CHECK(m.check().first_bad == "wide0");
    low.g[1][5] = bfloat16(infinity);
    CHECK(m.check().first_bad == "low1");
    CHECK_FALSE(std::isfinite(m.check().norm));
  }
  TEST_CASE("the norm is that of the unscaled gradients, and a scale below 1 makes no overflow") {
    Tensors<float> t({64});
    double sum = 0.;
    for (auto& x : t.g[0]) sum += static_cast<double>(x) * x;
    MasterWeights<Sgd> m(group(Sgd{}, t));
    CHECK(m.check().norm == doctest::Approx(std::sqrt(sum)).epsilon(1e-7));
    CHECK(m.check(0x1p-8f).norm == doctest::Approx(std::sqrt(sum) / 256.).epsilon(1e-7));
    t.g[0].assign(64, 3e38f);
    CHECK_FALSE(m.check(0x1p10f).overflow);
  }
  TEST_CASE("what is stashed adds up with later gradients of another scale, low and fp32 parameters alike") {
    Tensors<bfloat16> low({33}), low_sum({33});
    Tensors<float> wide({17}), wide_sum({17});
    MasterWeights<Sgd> m({{Sgd{.lr = 0.5}, low.source("low")}, {Sgd{.lr = 0.5}, wide.source("wide")}});
    MasterWeights<Sgd> sum({{Sgd{.lr = 0.5}, low_sum.source("low")}, {Sgd{.lr = 0.5}, wide_sum.source("wide")}});
    const auto fill = [](auto& tensors, float value) {
      for (auto& x : tensors.g[0]) x = typename std::decay_t<decltype(tensors.g[0])>::value_type(value);
    };
    fill(low, 8.f), fill(wide, 8.f);  // 2 at scale 4
    m.stash(0.25f, true);
    CHECK(float(low.g[0][0]) == 0.f);
    CHECK(wide.g[0][0] == 0.f);
    fill(low, 48.f), fill(wide, 48.f);  // 3 at scale 16
    CHECK(m.norm(0.0625f) == doctest::Approx(5. * std::sqrt(50.)));
    m.step(0.0625f, 0.5f);
    fill(low_sum, 5.f), fill(wide_sum, 5.f);
    sum.step(1.f, 0.5f);
    CHECK(masters_of(m) == masters_of(sum));
    CHECK_FALSE(m.has_stash());
  }
  TEST_CASE("a low gradient that was used is dropped, an fp32 one that nobody cleared adds up as torch does") {
    Tensors<half> low({2});
    Tensors<float> wide({2});
    low.g[0].assign(2, half(4.f)), wide.g[0].assign(2, 4.f);
    MasterWeights<Sgd> m({{Sgd{.lr = 1.}, low.source("low")}, {Sgd{.lr = 1.}, wide.source("wide")}});
    m.stash(0.5f, false);
    std::vector<float> grads;
    m.for_each_master([&](const amp::MasterView& v) { grads.push_back(v.grad.empty() ? -1.f : v.grad[0]); });
    CHECK(grads == std::vector<float>{0.f, 2.f});
  }
  TEST_CASE("clearing zeros through the model keeps the common path") {
    Tensors<float> wide({2});
    wide.g[0].assign(2, 0.f);
    MasterWeights<Sgd> m(group(Sgd{}, wide));
    m.stash(1.f, false);
    CHECK_FALSE(m.has_stash());
  }
  TEST_CASE("for_each_master gives masters and unscaled gradients, and the step then uses the same") {
    Tensors<half> a({6}), b({6});
    MasterWeights<Adam> m(group(Adam{.lr = 0.1}, a)), plain(group(Adam{.lr = 0.1}, b));
    std::size_t calls = 0;
    m.for_each_master(
        [&](const amp::MasterView& v) {
          ++calls;
          CHECK(v.name == "t0");
          for (std::size_t i = 0; i < 6; ++i) {
            CHECK(v.value[i] == float(a.w[0][i]));
            CHECK(v.grad[i] == float(a.g[0][i]) * 0.25f);
          }
        },
        0.25f);
    CHECK(calls == 1);
    m.step(0.25f), plain.step(0.25f);
    CHECK(masters_of(m) == masters_of(plain));
  }
  TEST_CASE("without masters master_params refuses and names for_each_master, which widens") {
    Tensors<bfloat16> t({3});
    MasterWeights<Sgd> m(group(Sgd{}, t), false);
    CHECK(m.master_bytes() == 0);
    try {
      (void)m.master_params();
      FAIL("no error");
    } catch (const amp::error& e) {
      CHECK(std::string(e.what()).find("for_each_master") != std::string::npos);
    }
    m.for_each_master([&](const amp::MasterView& v) { CHECK(v.value[1] == float(t.w[0][1])); });
  }
  TEST_CASE("B19 a low parameter without master and a zero gradient stays unchanged and finite") {
    Tensors<half> t({8});
    for (auto& g : t.g[0]) g = half(0.f);
    const auto before = widened(t.w[0]);
    MasterWeights<Adam> m(group(Adam{}, t), false);
    m.step();
    CHECK(widened(t.w[0]) == before);
    for (auto& g : t.g[0]) g = half(1e-4f);
    m.step();
    for (const half w : t.w[0]) CHECK(std::isfinite(float(w)));
  }
  TEST_CASE("a parameter in two groups, or two of one name, is an error that names it") {
    Tensors<float> t({3});
    const auto build = [](std::vector<amp::GroupSpec<Sgd>> g) { MasterWeights<Sgd> m(std::move(g)); };
    CHECK_THROWS_WITH_AS(build({{Sgd{}, t.source("x")}, {Sgd{}, t.source("y")}}), doctest::Contains("y0"), amp::error);
    Tensors<float> u({3});
    CHECK_THROWS_WITH_AS(build({{Sgd{}, t.source()}, {Sgd{}, u.source()}}), doctest::Contains("t0"), amp::error);
    CHECK_THROWS_AS(build({{Sgd{}, nullptr}}), amp::error);
    CHECK_THROWS_AS(build({{Sgd{}, t.source("x"), "g"}, {Sgd{}, u.source("y"), "g"}}), amp::error);
  }
  TEST_CASE("B26 a group added later gets masters and is checked, references to groups stay valid") {
    Tensors<half> first({4}), second({5});
    MasterWeights<Adam> m(group(Adam{.lr = 0.1}, first));
    auto& kept = m.group(0);
    m.step();
    m.add_group({Adam{.lr = 0.2}, second.source("late"), "late"});
    CHECK(&kept == &m.group(0));
    CHECK(m.master_params().size() == 2);
    CHECK(m.master_bytes() == 36);
    second.g[0][4] = half(infinity);
    CHECK(m.check().first_bad == "late0");
    second.g[0][4] = half(1.f);
    m.step();
    CHECK(m.group(0).step == 2);
    CHECK(m.group(1).step == 1);
  }
  TEST_CASE("saved and loaded, a run goes on bit for bit, masters are not rebuilt from the low copies") {
    Tensors<bfloat16> a({40, 7}), b({40, 7}, 99);
    MasterWeights<Adam> m(group(Adam{.lr = 0.01}, a));
    for (unsigned s = 0; s < 4; ++s) a.draw_grads(s), m.step();
    m.set_lr(0, 0.02);
    amp::StateDict state;
    m.save(state, "p.");
    MasterWeights<Adam> resumed(group(Adam{.lr = 0.01}, b));
    resumed.load(state, "p.");
    CHECK(masters_of(resumed) == masters_of(m));
    CHECK(widened(b.w[0]) == widened(a.w[0]));
    CHECK(resumed.group(0).options.lr == 0.02);
    for (unsigned s = 4; s < 8; ++s) {
      a.draw_grads(s), b.draw_grads(s);
      m.step(), resumed.step();
    }
    CHECK(masters_of(resumed) == masters_of(m));
  }
  TEST_CASE("a state that does not fit is refused by name, and nothing is changed") {
    Tensors<bfloat16> a({4}), b({5});
    MasterWeights<Adam> m(group(Adam{}, a)), other(group(Adam{}, b));
    m.step();
    amp::StateDict state;
    m.save(state);
    const auto before = masters_of(other);
    CHECK_THROWS_WITH_AS(other.load(state), doctest::Contains("master.t0"), amp::error);
    CHECK_THROWS_WITH_AS(other.load({}), doctest::Contains("group.0.step"), amp::error);
    CHECK(masters_of(other) == before);
    state["exp_avg_sq.t0"].bytes.pop_back();
    CHECK_THROWS_WITH_AS(m.load(state), doctest::Contains("exp_avg_sq.t0"), amp::error);
  }
  TEST_CASE("zero_grad clears gradients and stash") {
    Tensors<half> t({4});
    MasterWeights<Sgd> m(group(Sgd{}, t));
    m.stash(1.f, true);
    t.draw_grads(3);
    CHECK(m.has_stash());
    m.zero_grad();
    CHECK_FALSE(m.has_stash());
    CHECK(m.check().norm == 0.);
  }
}
