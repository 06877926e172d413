#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "master_weights/instances.hpp"

using amp::Adam;
using amp::bfloat16;
using amp::dtype;
using amp::half;
using amp::masters;
using amp::MasterWeights;
using amp::Sgd;
using reference::Tensors;
using namespace test_masters;

namespace {
/// A weight of 1 after 1,000 steps that each add 1e-4, over many elements.
template <class T>
std::vector<T> add_up(masters form) {
  Tensors<T> t({4096});
  t.w[0].assign(4096, T(1.f));
  t.g[0].assign(4096, T(-1.f));
  MasterWeights<Sgd> m(group(Sgd{.lr = 1e-4}, t), {.masters = form, .seed = 3});
  for (int i = 0; i < 1000; ++i) m.step();
  return t.w[0];
}
template <class T>
double mean(const std::vector<T>& v) {
  double sum = 0.;
  for (const T x : v) sum += static_cast<double>(float(x));
  return sum / static_cast<double>(v.size());
}
}  // namespace

TEST_SUITE("master_weights/forms") {
  TEST_CASE("M11 a bf16 weight with a 16-bit remainder is stepped as an fp32 master is, bit for bit") {
    Tensors<bfloat16> wide({1, 33, 700}), split({1, 33, 700});
    const Adam adam{.lr = 0.01, .weight_decay = 0.1};
    MasterWeights<Adam> a(group(adam, wide)), b(group(adam, split), {.masters = masters::remainder});
    for (unsigned step = 0; step < 25; ++step) {
      wide.draw_grads(step), split.draw_grads(step);
      a.step(0.5f, 0.9f), b.step(0.5f, 0.9f);
      for (std::size_t i = 0; i < 3; ++i) {
        const std::string name = "t" + std::to_string(i);
        const auto x = master(a, name);
        CHECK(master(b, name) == x);
        bool weights = true;
        for (std::size_t k = 0; k < x.size(); ++k) {
          const std::uint32_t bits = word(x[k]);
          weights &= split.w[i][k].bits() == static_cast<std::uint16_t>((bits + 0x8000u) >> 16);
          const bool tie = (bits & 0xffffu) == 0x8000u;
          weights &= tie || split.w[i][k].bits() == wide.w[i][k].bits();
        }
        CHECK(weights);
      }
    }
    CHECK(saved(a).at("exp_avg.t2") == saved(b).at("exp_avg.t2"));
  }
  TEST_CASE("M11 fp32 parameters beside remainders are stepped in place, an fp16 one is refused by name") {
    Tensors<bfloat16> low({20});
    Tensors<float> wide({20}), alone({20});
    auto params = low.params("low");
    params.push_back(wide.params("norm")[0]);
    MasterWeights<Adam> m({{Adam{.lr = 0.1}, std::make_shared<amp::FixedParams>(params), {}}},
                          {.masters = masters::remainder});
    MasterWeights<Adam> plain(group(Adam{.lr = 0.1}, alone));
    alone.w = wide.w, alone.g = wide.g;
    m.step(), plain.step();
    CHECK(wide.w[0] == alone.w[0]);
    CHECK(m.has_master(0, 0));
    CHECK_FALSE(m.has_master(0, 1));
    Tensors<half> narrow({2});
    const auto build = [&] {
      MasterWeights<Adam> refused(group(Adam{}, narrow, "conv.weight"), {.masters = masters::remainder});
    };
    CHECK_THROWS_WITH_AS(build(), doctest::Contains("conv.weight0 is fp16"), amp::error);
  }
  TEST_CASE("M13 B44 with a compensation small updates of a bf16 weight add up, as with an fp32 master") {
    for (const bfloat16 w : add_up<bfloat16>(masters::kahan)) CHECK(float(w) == doctest::Approx(1.1f).epsilon(0.004));
    for (const half w : add_up<half>(masters::kahan)) CHECK(float(w) == doctest::Approx(1.1f).epsilon(0.0006));
    for (const bfloat16 w : add_up<bfloat16>(masters::none)) CHECK(float(w) == 1.f);
  }
  TEST_CASE("M13 compensated weights follow fp32 masters closely over many steps of Adam") {
    Tensors<bfloat16> wide({500}), low({500});
    MasterWeights<Adam> a(group(Adam{.lr = 0.002, .weight_decay = 0.1}, wide)),
        b(group(Adam{.lr = 0.002, .weight_decay = 0.1}, low), {.masters = masters::kahan});
    for (unsigned step = 0; step < 200; ++step) {
      wide.draw_grads(step), low.draw_grads(step);
      a.step(), b.step();
    }
    const auto x = master(a), y = master(b);
    double worst = 0.;
    for (std::size_t k = 0; k < 500; ++k) worst = std::max(worst, std::fabs(double(x[k]) - double(y[k])));
    CHECK(worst < 6e-4);  // 2^-16 a step for weights below 4, a random walk over 200; bf16 alone rounds by 2^-7
    CHECK(worst > 0.);
  }
  TEST_CASE("M13 B44 rounded at random small updates count on average, with no master at all") {
    const auto bf16 = add_up<bfloat16>(masters::stochastic);
    CHECK(mean(bf16) == doctest::Approx(1.1).epsilon(0.001));
    CHECK(mean(add_up<half>(masters::stochastic)) == doctest::Approx(1.1).epsilon(0.001));
    CHECK(bf16[0].bits() != bf16[1].bits());  // neighbours draw apart
  }
  TEST_CASE_TEMPLATE("M12 an fp16 master has the scale of its largest element, and low = round(master)", T, half,
                     bfloat16) {
    Tensors<T> t({300});
    Tensors<float> wide({300});
    for (std::size_t k = 0; k < 300; ++k) wide.w[0][k] = float(t.w[0][k]);
    MasterWeights<Adam> m(group(Adam{.lr = 0.01}, t), {.masters = masters::fp16}), exact(group(Adam{.lr = 0.01}, wide));
    CHECK(m.master_bytes() == 604);
    for (unsigned step = 0; step < 4; ++step) {
      t.draw_grads(step);
      for (std::size_t k = 0; k < 300; ++k) wide.g[0][k] = float(t.g[0][k]);
      m.step(), exact.step();
      const auto state = saved(m);
      CHECK(state.at("master.t0").type == "F16");
      const float scale = floats(state, "master_scale.t0")[0];
      float largest = 0.f;
      bool rounded = true;
      m.for_each_master([&](const amp::MasterView& v) {
        for (std::size_t k = 0; k < 300; ++k) {
          largest = std::max(largest, std::fabs(v.value[k]));
          rounded &= T(v.value[k]).bits() == t.w[0][k].bits();
          CHECK(v.value[k] == doctest::Approx(wide.w[0][k]).epsilon(0.002));
        }
      });
      m.skip();
      CHECK(rounded);
      CHECK(largest == scale * (65504.f / 2.f));
    }
    CHECK_THROWS_WITH_AS((void)m.master_params(), doctest::Contains("for_each_master"), amp::error);
  }
  TEST_CASE("M10 flat masters are one contiguous buffer with a view per parameter") {
    Tensors<bfloat16> t({3, 17, 1});
    MasterWeights<Adam> m(group(Adam{.lr = 0.1}, t), {.flat = true});
    const amp::tensor_view flat = m.flat_masters(0);
    CHECK(flat.size == 21);
    CHECK(flat.type == dtype::fp32);
    const auto* p = static_cast<const float*>(flat.data);
    const auto params = m.master_params();
    CHECK(params[0].value == p);
    CHECK(params[1].value == p + 3);
    CHECK(params[2].value == p + 20);
    m.step();
    CHECK(float(bfloat16(p[3])) == float(t.w[1][0]));
    Tensors<bfloat16> gaps({3, 17, 1});
    MasterWeights<Adam> other(group(Adam{.lr = 0.1}, gaps));
    other.step();
    CHECK(words(gaps.w[1]) == words(t.w[1]));
  }
  TEST_CASE("M10 flat masters follow weights set before the first use, and hold frozen parameters too") {
    Tensors<bfloat16> t({3, 5});
    const auto source = std::make_shared<Changing>(t.params());
    MasterWeights<Adam> m({{Adam{}, source, {}}}, {.flat = true});
    t.w[1].assign(5, bfloat16(0.75f));  // pretrained weights, loaded late
    const auto last = [&] { return static_cast<const float*>(m.flat_masters(0).data)[7]; };
    CHECK(last() == 0.75f);
    source->params[0].requires_grad = false;
    CHECK(m.flat_masters(0).size == 8);
    source->params[1].requires_grad = false;
    CHECK(m.flat_masters(0).size == 8);
    CHECK(last() == 0.75f);
  }
  TEST_CASE("M10 flat masters need parameters of one type, and fp32 masters") {
    Tensors<bfloat16> low({3});
    Tensors<float> wide({3});
    auto params = low.params("low");
    params.push_back(wide.params("norm")[0]);
    const auto mixed = std::make_shared<amp::FixedParams>(params);
    const auto build = [](std::shared_ptr<amp::ParamSource> source, amp::storage_options o) {
      MasterWeights<Adam> m({{Adam{}, std::move(source), {}}}, o);
      return m.flat_masters(0).size;
    };
    CHECK_THROWS_WITH_AS(build(mixed, {.flat = true}), doctest::Contains("norm0"), amp::error);
    CHECK_THROWS_AS(build(low.source(), {.masters = masters::kahan, .flat = true}), amp::error);
    CHECK_THROWS_WITH_AS(build(low.source(), {}), doctest::Contains("flat = true"), amp::error);
    CHECK_THROWS_WITH_AS(build(wide.source(), {.flat = true}), doctest::Contains("no masters"), amp::error);
    CHECK(build(low.source(), {.flat = true}) == 3);
  }
  TEST_CASE("L8 without fp32 tensors master_params refuses and names for_each_master, which shows their values") {
    for (const masters form : {masters::remainder, masters::kahan, masters::stochastic, masters::none}) {
      Tensors<bfloat16> t({40});
      MasterWeights<Sgd> m(group(Sgd{.lr = 0.01}, t), {.masters = form});
      m.step();
      CHECK_THROWS_WITH_AS((void)m.master_params(), doctest::Contains("use for_each_master(fn)"), amp::error);
      m.for_each_master([&](const amp::MasterView& v) {
        CHECK(v.value.size() == 40);
        CHECK(v.value[7] == doctest::Approx(float(t.w[0][7])).epsilon(0.004));
        CHECK(v.grad[7] == float(t.g[0][7]));
      });
    }
  }
  TEST_CASE(
      "B19 an infinite gradient shows in the weight whatever form it has, and finite ones beside it do not care") {
    for (const masters form : {masters::remainder, masters::kahan, masters::stochastic, masters::fp16}) {
      Tensors<bfloat16> t({3});
      t.w[0].assign(3, bfloat16(1.f));
      t.g[0] = {bfloat16(std::numeric_limits<float>::infinity()), bfloat16(1.f), bfloat16(0.f)};
      MasterWeights<Sgd> m(group(Sgd{.lr = 0.5}, t), {.masters = form});
      m.step();
      CHECK_FALSE(std::isfinite(float(t.w[0][0])));
      CHECK(float(t.w[0][1]) == 0.5f);
      CHECK(float(t.w[0][2]) == 1.f);
    }
  }
  TEST_CASE("values are assigned by name in every form") {
    for (const masters form :
         {masters::fp32, masters::remainder, masters::kahan, masters::stochastic, masters::fp16, masters::none}) {
      Tensors<bfloat16> t({700, 2});
      MasterWeights<Sgd> m(group(Sgd{}, t), {.masters = form});
      const std::vector<float> values(700, 1.00390625f);  // a tie of bf16
      CHECK(m.assign("t0", values));
      CHECK_FALSE(m.assign("t9", values));
      CHECK(t.w[0][699].bits() == (form == masters::remainder ? 0x3f81 : 0x3f80));
      if (form != masters::stochastic && form != masters::none)
        m.for_each_master([&](const amp::MasterView& v) {
          if (v.name == "t0") CHECK(v.value[3] == doctest::Approx(1.00390625f).epsilon(1e-5));
        });
      CHECK_THROWS_WITH_AS(m.assign("t1", values), doctest::Contains("t1"), amp::error);
    }
  }
}
