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
using amp::Param;
using amp::Sgd;
using reference::Tensors;
using namespace test_masters;

namespace {
/// A low and an fp32 parameter whose gradients come and go, as a tensor library's do.
struct Model final : amp::ParamSource {
  std::vector<half> w = std::vector<half>(5, half(1.f)), g = std::vector<half>(5);
  std::vector<float> norm = std::vector<float>(3, 1.f), norm_g = std::vector<float>(3);
  std::vector<Param> params{amp::make_param("w", w, g), amp::make_param("norm", norm, norm_g)};
  bool has_low = false, has_wide = false;

  std::span<const Param> refresh() override {
    params[0].grad = has_low ? g.data() : nullptr;
    params[1].grad = has_wide ? norm_g.data() : nullptr;
    return params;
  }
  void zero_grad(std::size_t i, amp::zeroing how) override {
    amp::fill_zero(params[i]);
    if (how == amp::zeroing::release) (i == 0 ? has_low : has_wide) = false;
  }
  /// What a backward leaves: it adds to a gradient that is there and writes one that is not.
  void backward(float low, float wide) {
    for (auto& x : g) x = half(has_low ? float(x) + low : low);
    for (auto& x : norm_g) x = has_wide ? x + wide : wide;
    has_low = has_wide = true;
  }
};
struct Trained {
  std::shared_ptr<Model> model = std::make_shared<Model>();
  MasterWeights<Sgd> m;
  explicit Trained(const amp::storage_options& storage = {}) : m({{Sgd{.lr = 1.}, model, {}}}, storage) {}
  /// The unscaled gradients that a step would use; -1 where there is none.
  std::vector<float> grads(float inv_scale) {
    std::vector<float> all;
    m.for_each_master([&](const amp::MasterView& v) { all.push_back(v.grad.empty() ? -1.f : v.grad[0]); }, inv_scale);
    return all;
  }
};
}  // namespace

TEST_SUITE("master_weights/steps") {
  TEST_CASE(
      "M1 masters are exact copies in group order, fp32 parameters stand for themselves, untrained ones are left out") {
    Tensors<half> low({4, 2});
    Tensors<float> wide({3});
    auto params = low.params("low");
    params.insert(params.begin() + 1, wide.params("wide")[0]);
    params[2].requires_grad = false;
    MasterWeights<Adam> m({{Adam{}, std::make_shared<amp::FixedParams>(params), {}}});
    const auto all = m.master_params();
    REQUIRE(all.size() == 2);
    CHECK(all[0].name == "low0");
    CHECK(all[0].type == dtype::fp32);
    CHECK(static_cast<const float*>(all[0].value)[3] == float(low.w[0][3]));
    CHECK(all[1].value == wide.w[0].data());
    CHECK(m.master_bytes() == 16);
    CHECK(m.moment_bytes() == 56);
  }
  TEST_CASE("M1 a parameter of a type that cannot be trained is an error that names it") {
    std::vector<amp::e4m3> w(3), g(3);
    const auto build = [&](Param p) {
      p.name = "proj.weight";
      MasterWeights<Sgd> m({{Sgd{}, std::make_shared<amp::FixedParams>(std::vector{p}), {}}});
    };
    CHECK_THROWS_WITH_AS(build(amp::make_param("", w, g)), doctest::Contains("proj.weight is e4m3"), amp::error);
    std::vector<float> f(3);
    Param foreign = amp::make_param("", f, f);
    foreign.type = static_cast<dtype>(99);  // a double or an integer of a tensor library
    CHECK_THROWS_WITH_AS(build(foreign), doctest::Contains("proj.weight"), amp::error);
    foreign.type = dtype::fp32, foreign.value = nullptr;
    CHECK_THROWS_WITH_AS(build(foreign), doctest::Contains("proj.weight has no value"), amp::error);
  }
  TEST_CASE("M1 parameters that share memory, whole or in part, in one group or two, are refused by name") {
    std::vector<bfloat16> w(10), g(10);
    const auto part = [&](const std::string& name, std::ptrdiff_t first, std::size_t count) {
      std::span<bfloat16> value(w.data() + first, count), grad(g.data() + first, count);
      return amp::make_param(name, value, grad);
    };
    const auto build = [&](std::vector<Param> first, std::vector<Param> second) {
      MasterWeights<Sgd> m({{Sgd{}, std::make_shared<amp::FixedParams>(std::move(first)), "one"}});
      m.add_group({Sgd{}, std::make_shared<amp::FixedParams>(std::move(second)), "two"});
    };
    CHECK_THROWS_WITH_AS(build({part("head", 0, 6), part("tail", 5, 5)}, {}),
                         doctest::Contains("parameters head and tail overlap"), amp::error);
    CHECK_THROWS_WITH_AS(build({part("tail", 5, 5)}, {part("head", 0, 6)}),
                         doctest::Contains("parameters head and tail overlap"), amp::error);
    CHECK_THROWS_WITH_AS(build({part("all", 0, 10)}, {part("inner", 2, 1), part("far", 7, 1)}),
                         doctest::Contains("parameters all and inner overlap"), amp::error);
    CHECK_THROWS_WITH_AS(build({part("a", 3, 2)}, {part("b", 3, 2)}), doctest::Contains("b is given twice"),
                         amp::error);
    CHECK_NOTHROW(build({part("tail", 5, 5), part("nothing", 5, 0)}, {part("head", 0, 5)}));
  }
  TEST_CASE("M1 a parameter that starts to require a gradient later has no state and is named") {
    Tensors<half> t({2});
    const auto late = std::make_shared<Changing>(t.params("frozen"));
    late->params[0].requires_grad = false;
    MasterWeights<Sgd> m({{Sgd{}, late, {}}});
    m.step();
    late->params[0].requires_grad = true;
    CHECK_THROWS_WITH_AS(m.step(), doctest::Contains("frozen"), amp::error);
    late->params.clear();
    CHECK_THROWS_WITH_AS(m.step(), doctest::Contains("from 1 to 0"), amp::error);
  }
  TEST_CASE("M1 masters follow weights that are set before the first use, and what was assigned exactly stays") {
    for (const masters form : {masters::fp32, masters::fp16}) {
      for (const int first_use : {0, 1, 2, 3}) {
        Tensors<bfloat16> t({600, 3});
        MasterWeights<Sgd> m(group(Sgd{.lr = 0.}, t), {.masters = form});
        const std::vector<float> exact{1.001f, -2.003f, 0.25f};
        m.assign("t1", exact);
        t.w[0].assign(600, bfloat16(0.75f));  // pretrained weights, loaded late
        if (first_use == 0) m.stash(1.f, false);
        if (first_use == 1) m.zero_grad();
        if (first_use == 2) m.step();
        if (first_use == 3) (void)saved(m);
        std::vector<std::vector<float>> values;
        m.for_each_master([&](const amp::MasterView& v) { values.emplace_back(v.value.begin(), v.value.end()); });
        CHECK(values[0][599] == doctest::Approx(0.75f).epsilon(1e-4));
        for (std::size_t k = 0; k < 3; ++k)
          CHECK(values[1][k] == doctest::Approx(exact[k]).epsilon(form == masters::fp32 ? 1e-12 : 1e-3));
        t.w[0].assign(600, bfloat16(5.f));  // from now on masters lead
        t.draw_grads(1);
        m.step();
        CHECK(float(t.w[0][0]) == 0.75f);
      }
    }
  }
  TEST_CASE(
      "M5 copies of fp32 masters are rounded at random when asked, masters and moments stay those of other runs") {
    Tensors<bfloat16> t({4000}), n({4000});
    MasterWeights<Adam> m(group(Adam{.lr = 0.01}, t), {.stochastic_copies = true, .seed = 8}),
        nearest(group(Adam{.lr = 0.01}, n));
    for (unsigned step = 0; step < 3; ++step) t.draw_grads(step), n.draw_grads(step), m.step(), nearest.step();
    const auto x = master(m);
    CHECK(x == master(nearest));
    double sum = 0.;
    bool neighbour = true;
    for (std::size_t k = 0; k < 4000; ++k) {
      const float low = float(t.w[0][k]);
      sum += double(low) - double(x[k]);
      neighbour &= std::fabs(low - x[k]) <= std::fabs(x[k]) * 0x1p-7f;
    }
    CHECK(neighbour);
    CHECK(words(t.w[0]) != words(n.w[0]));
    CHECK(std::fabs(sum / 4000.) < 4. * 0.004 / std::sqrt(4000.));
    CHECK_THROWS_AS((MasterWeights<Adam>(group(Adam{}, t), {.masters = masters::kahan, .stochastic_copies = true})),
                    amp::error);
  }
  TEST_CASE("M2 before a backward low gradients that were used are dropped and fp32 ones are put aside") {
    Trained t;
    t.model->backward(4.f, 8.f);
    t.m.stash(0.5f, false);
    CHECK_FALSE(t.model->has_low);
    CHECK_FALSE(t.model->has_wide);
    CHECK(t.grads(1.f) == std::vector<float>{-1.f, 4.f});
  }
  TEST_CASE("M3 a low parameter's gradient is kept, made, summed or absent as the four cases of stash and model say") {
    for (const bool put_aside : {false, true}) {
      for (const bool fresh : {false, true}) {
        Trained t;
        if (put_aside) t.model->backward(4.f, 0.f), t.m.stash(0.5f, true);
        if (fresh) t.model->backward(16.f, 0.f);
        const float expected = !put_aside && !fresh ? -1.f : (put_aside ? 2.f : 0.f) + (fresh ? 2.f : 0.f);
        CHECK(t.grads(0.125f)[0] == expected);
      }
    }
  }
  TEST_CASE("M3 only fresh gradients are checked, inf in the stash is no overflow of a later loss") {
    Trained t;
    t.model->backward(std::numeric_limits<float>::infinity(), 1.f);
    CHECK(t.m.check(1.f).overflow);
    CHECK(t.m.check(1.f).first_bad == "w");
    t.m.stash(1.f, true);
    t.model->backward(1.f, 1.f);
    CHECK_FALSE(t.m.check(1.f).overflow);
    CHECK_FALSE(std::isfinite(t.m.norm(1.f)));
  }
  TEST_CASE("M4 an fp32 parameter's stash and gradient add up, at scale 1 too") {
    for (const float inv_scale : {1.f, 0.25f}) {
      for (const bool put_aside : {false, true}) {
        for (const bool fresh : {false, true}) {
          Trained t;
          if (put_aside) t.model->backward(0.f, 3.f / inv_scale), t.m.stash(inv_scale, false);
          if (fresh) t.model->backward(0.f, 5.f / inv_scale);
          const float expected = !put_aside && !fresh ? -1.f : (put_aside ? 3.f : 0.f) + (fresh ? 5.f : 0.f);
          CHECK(t.grads(inv_scale)[1] == expected);
        }
      }
    }
  }
  TEST_CASE(
      "M5 a step rounds to nearest into the low parameter at its old address and uses up the gradients put aside") {
    Trained t;
    const void* address = t.model->w.data();
    t.model->backward(0.25f, 0.25f);
    t.m.stash(1.f, true);
    t.m.step();
    CHECK_FALSE(t.m.has_stash());
    CHECK(t.model->w.data() == address);
    CHECK(float(t.model->w[4]) == 0.75f);
    CHECK(t.model->norm[2] == 0.75f);
    t.model->backward(0x1p-12f, 0.f);
    t.m.step();
    CHECK(float(t.model->w[4]) == float(half(0.75f - 0x1p-12f)));
  }
  TEST_CASE("M6 zero_grad clears by filling or releasing, and clearing through the model trains the same") {
    const auto train = [](int how) {
      Trained t;
      for (int step = 0; step < 3; ++step) {
        if (step > 0 || how != 0) t.m.stash(1.f, false);
        t.model->backward(0.25f, 0.5f);
        t.m.step();
        if (how == 0) t.m.zero_grad(amp::zeroing::fill);
        if (how == 1) t.m.zero_grad(amp::zeroing::release);
        if (how == 2) t.model->has_low = t.model->has_wide = false;
        if (how == 3) t.model->g.assign(5, half(0.f)), t.model->norm_g.assign(3, 0.f);
        if (how == 0) CHECK(t.model->has_low);
        if (how == 1) CHECK_FALSE(t.model->has_wide);
      }
      return std::pair(words(t.model->w), t.model->norm);
    };
    const auto expected = train(0);
    for (const int how : {1, 2, 3}) CHECK(train(how) == expected);
  }
  TEST_CASE("M7 a stash in its own format at a common scale gives the bits of fp32 masters of gradients") {
    const auto run = [](bool low_stash, std::vector<float> scales) {
      Tensors<half> low({40}, 5);
      Tensors<float> wide({7}, 6);
      MasterWeights<Sgd> m({{Sgd{.lr = 0.5, .momentum = 0.9}, low.source("low"), {}},
                            {Sgd{.lr = 0.5, .momentum = 0.9}, wide.source("wide"), {}}},
                           {.low_stash = low_stash});
      for (int step = 0; step < 3; ++step) {
        for (std::size_t loss = 0; loss < scales.size(); ++loss) {
          if (loss > 0) m.stash(1.f / scales[loss - 1], true);
          const auto value = [&](std::size_t k) {  // sums of these are exact in fp16
            return static_cast<float>(static_cast<int>((k * 7 + loss * 3 + static_cast<std::size_t>(step)) % 32) - 16);
          };
          for (std::size_t k = 0; k < 40; ++k) low.g[0][k] = half(value(k) * scales[loss]);
          for (std::size_t k = 0; k < 7; ++k) wide.g[0][k] = value(k) * scales[loss];
        }
        m.step(1.f / scales.back(), 0.5f);
        CHECK_FALSE(m.has_stash());
      }
      return std::pair(words(low.w[0]), wide.w[0]);
    };
    for (const auto& scales :
         std::vector<std::vector<float>>{{64.f}, {64.f, 1024.f}, {1024.f, 64.f}, {8.f, 512.f, 1.f}})
      CHECK(run(true, scales) == run(false, scales));
  }
  TEST_CASE("M7 the common scale is the smaller one, so a sum overflows no sooner than its parts") {
    Trained low({.low_stash = true});
    low.model->backward(32768.f, 0.f);  // 0.5 at scale 65536
    low.m.stash(0x1p-16f, true);
    low.model->backward(2.f, 4.f);  // 2 at scale 1: 131072 at the other
    CHECK(low.m.norm(1.f) == doctest::Approx(std::sqrt(5. * 6.25 + 3. * 16.)));
    CHECK(low.grads(1.f) == std::vector<float>{2.5f, 4.f});
    CHECK_THROWS_AS((void)low.m.flat_masters(0), amp::error);
    CHECK(low.m.master_params()[0].grad == nullptr);  // what is put aside is still scaled
    low.m.skip();
    low.model->backward(0.f, 0.f);
    CHECK(low.grads(0.5f) == std::vector<float>{1.f, 2.f});
  }
  TEST_CASE("M7 what waits in the stash follows a scale that falls, with or without a new gradient") {
    Trained low({.low_stash = true});
    low.model->backward(256.f, 128.f);  // 1 and 0.5 at 256
    low.m.stash(0x1p-8f, true);
    low.model->backward(3.f, 0.f);
    low.model->has_wide = false;
    CHECK(low.grads(1.f) == std::vector<float>{4.f, 0.5f});
    low.m.step();
    CHECK(float(low.model->w[0]) == -3.f);
    CHECK(low.model->norm[0] == 0.5f);
  }
  TEST_CASE("M2 gradients whose squares are 0 in fp32 are put aside, those that were zeroed are not") {
    Tensors<float> t({3});
    MasterWeights<Sgd> m(group(Sgd{.lr = 1.}, t));
    const float small = 1e-30f, infinite = std::numeric_limits<float>::infinity();
    for (const float x : {small, infinite, -infinite, std::numeric_limits<float>::quiet_NaN()}) {
      t.g[0] = {0.f, 0.f, x};
      m.stash(1.f, false);
      CHECK(m.has_stash());
      m.skip();
    }
    t.g[0] = {0.f, -0.f, 0.f};
    m.stash(1.f, false);
    CHECK_FALSE(m.has_stash());
    t.w[0] = {0.f, 0.f, 0.f}, t.g[0] = {small, 0.f, 0.f};
    m.stash(1.f, false);
    t.g[0] = {small, 0.f, 0.f};
    m.step();
    CHECK(t.w[0][0] == -2.f * small);
  }
  TEST_CASE("M8 groups added before or after gradients and steps get masters, order and counters are kept") {
    for (const masters form : {masters::fp32, masters::remainder, masters::kahan}) {
      Tensors<bfloat16> first({4}), second({5});
      MasterWeights<Adam> m(group(Adam{.lr = 0.1}, first, "first"), {.masters = form});
      m.add_group({Adam{.lr = 0.1}, std::make_shared<amp::FixedParams>(std::vector<Param>{}), "empty"});
      m.step();
      m.zero_grad();
      m.add_group({Adam{.lr = 0.2}, second.source("late"), "late"});
      second.draw_grads(3);
      m.step();
      CHECK(m.group_count() == 3);
      CHECK(m.group_name(2) == "late");
      CHECK(m.group(1).step == 2);
      CHECK(m.group(2).step == 1);
      std::vector<std::string> names;
      m.for_each_master([&](const amp::MasterView& v) { names.emplace_back(v.name); });
      CHECK(names == std::vector<std::string>{"first0", "late0"});
    }
  }
  TEST_CASE("B12 skipped steps do not count, so bias correction starts with the first step that is done") {
    Tensors<half> skipped({30}), fresh({30});
    MasterWeights<Adam> a(group(Adam{.lr = 0.1}, skipped)), b(group(Adam{.lr = 0.1}, fresh));
    for (unsigned step = 0; step < 3; ++step) {
      skipped.g[0].assign(30, half(std::numeric_limits<float>::infinity()));
      CHECK(a.check().overflow);
      a.skip();
    }
    skipped.draw_grads(9), fresh.draw_grads(9);
    a.step(), b.step();
    CHECK(master(a) == master(b));
    CHECK(a.group(0).step == 1);
    CHECK(saved(a) == saved(b));
  }
  TEST_CASE("an option that means nothing is refused") {
    Tensors<half> t({2});
    const auto build = [&](amp::storage_options o) { MasterWeights<Sgd> m(group(Sgd{}, t), o); };
    CHECK_THROWS_AS(build({.moments = static_cast<dtype>(77)}), amp::error);
    CHECK_THROWS_AS(build({.moments = dtype::e5m2, .stochastic_moments = true}), amp::error);
    CHECK_NOTHROW(build({.moments = {dtype::e4m3, dtype::bf16}, .stochastic_moments = true}));
  }
}
