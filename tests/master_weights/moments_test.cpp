#include <doctest/doctest.h>

#include <amp/half_traits.hpp>
#include <cmath>

#include "master_weights/instances.hpp"

template class amp::MasterWeights<amp::Sgd>;

using amp::Adam;
using amp::bfloat16;
using amp::dtype;
using amp::e4m3;
using amp::half;
using amp::masters;
using amp::MasterWeights;
using amp::scale_per;
using amp::Sgd;
using reference::Tensors;
using namespace test_masters;

namespace {
using Moments = std::vector<std::pair<std::string, std::vector<float>>>;
template <class Opt>
Moments moments_of(MasterWeights<Opt>& m) {
  Moments all;
  m.for_each_moment([&](const amp::MomentView& v) {
    all.emplace_back(std::string(v.moment) + '.' + std::string(v.name), std::vector(v.value.begin(), v.value.end()));
  });
  return all;
}
template <class T>
const T* stored(const amp::StateDict& state, const std::string& key) {
  return reinterpret_cast<const T*>(state.at(key).bytes.data());
}
/// How far parameters end from those of fp32 moments, relative to how far they went.
double off_after(const amp::storage_options& storage, unsigned steps) {
  Tensors<float> a({600}), b({600});
  const auto start = a.w[0];
  MasterWeights<Adam> exact(group(Adam{.lr = 0.01}, a)), low(group(Adam{.lr = 0.01}, b), storage);
  for (unsigned step = 0; step < steps; ++step) {
    a.draw_grads(step);
    for (std::size_t k = 0; k < 600; ++k)  // a drift, of many sizes, and noise
      a.g[0][k] = (a.g[0][k] + 1.f) * std::exp2(-static_cast<float>(k % 10));
    b.g = a.g;
    exact.step(), low.step();
  }
  double moved = 0., off = 0.;
  for (std::size_t k = 0; k < 600; ++k) {
    const double x = a.w[0][k], y = b.w[0][k];
    moved += (x - double(start[k])) * (x - double(start[k])), off += (x - y) * (x - y);
  }
  return std::sqrt(off / moved);
}
}  // namespace

TEST_SUITE("master_weights/moments") {
  TEST_CASE("M12 the first moment after one step is the fp32 one over its scale, rounded once") {
    const auto one_step = [](dtype type) {
      Tensors<float> t({300});
      MasterWeights<Adam> m(group(Adam{.lr = 0.1}, t), {.moments = type});
      m.step();
      return saved(m);
    };
    const auto wide = one_step(dtype::fp32);
    const auto m32 = floats(wide, "exp_avg.t0"), v32 = floats(wide, "exp_avg_sq.t0");
    float m_peak = 0.f, v_peak = 0.f;
    for (std::size_t k = 0; k < 300; ++k)
      m_peak = std::max(m_peak, std::fabs(m32[k])), v_peak = std::max(v_peak, v32[k]);

    const auto bf16 = one_step(dtype::bf16), fp16 = one_step(dtype::fp16), fp8 = one_step(dtype::e4m3);
    CHECK(bf16.at("exp_avg.t0").type == "BF16");
    CHECK(fp16.at("exp_avg.t0").type == "F16");
    CHECK(fp8.at("exp_avg_sq.t0").type == "F8_E4M3");
    CHECK_FALSE(bf16.contains("exp_avg_scale.t0"));
    const float s16 = floats(fp16, "exp_avg_scale.t0")[0], t16 = floats(fp16, "exp_avg_sq_scale.t0")[0];
    const float s8 = floats(fp8, "exp_avg_scale.t0")[0], t8 = floats(fp8, "exp_avg_sq_root_scale.t0")[0];
    CHECK(s16 == m_peak / 32752.f);
    CHECK(t16 == v_peak / 32752.f);
    CHECK(s8 == m_peak / 448.f);
    CHECK(t8 == std::sqrt(v_peak) / 448.f);
    bool right = true;
    for (std::size_t k = 0; k < 300; ++k) {
      right &= stored<bfloat16>(bf16, "exp_avg.t0")[k].bits() == bfloat16(m32[k]).bits();
      right &= stored<bfloat16>(bf16, "exp_avg_sq.t0")[k].bits() == bfloat16(v32[k]).bits();
      right &= stored<half>(fp16, "exp_avg.t0")[k].bits() == half(m32[k] / s16).bits();
      right &= stored<half>(fp16, "exp_avg_sq.t0")[k].bits() == half(v32[k] / t16).bits();
      right &= stored<e4m3>(fp8, "exp_avg.t0")[k].bits() == e4m3(m32[k] / s8).bits();
      const float root = std::sqrt(v32[k]) / t8;
      right &=
          stored<e4m3>(fp8, "exp_avg_sq.t0")[k].bits() == e4m3(root < 0x1p-9f && root > 0.f ? 0x1p-9f : root).bits();
    }
    CHECK(right);
  }
  TEST_CASE("M12 the state is reported in fp32 whatever it is stored in") {
    Tensors<float> a({300}), b({300}), c({300});
    MasterWeights<Adam> wide(group(Adam{.lr = 0.1}, a)), fp16(group(Adam{.lr = 0.1}, b), {.moments = dtype::fp16}),
        fp8(group(Adam{.lr = 0.1}, c), {.moments = dtype::e4m3});
    wide.step(), fp16.step(), fp8.step();
    const Moments exact = moments_of(wide), x = moments_of(fp16), y = moments_of(fp8);
    REQUIRE(exact.size() == 2);
    CHECK(exact[0].first == "exp_avg.t0");
    CHECK(exact[1].first == "exp_avg_sq.t0");
    for (std::size_t k = 0; k < 2; ++k) {
      CHECK(x[k].first == exact[k].first);
      float peak = 0.f;
      for (const float v : exact[k].second) peak = std::max(peak, std::fabs(v));
      for (std::size_t i = 0; i < 300; ++i) {
        const float e = exact[k].second[i];
        CHECK(std::fabs(x[k].second[i] - e) <= std::fabs(e) * 0x1p-10f + peak * 1e-11f);
        CHECK(std::fabs(y[k].second[i] - e) <= std::fabs(e) * 0.14f + peak * 3e-6f);
      }
    }
  }
  TEST_CASE("M12 training with low moments ends near training with fp32 ones") {
    CHECK(off_after({}, 60) == 0.);
    CHECK(off_after({.moments = dtype::fp16}, 60) < 1e-3);
    CHECK(off_after({.moments = dtype::bf16}, 60) < 0.02);
    CHECK(off_after({.moments = {dtype::e4m3, dtype::fp16}}, 60) < 0.05);
    CHECK(off_after({.moments = dtype::e4m3}, 60) < 0.1);
    CHECK(off_after({.moments = dtype::e4m3, .scales = scale_per::block}, 60) < 0.1);
    CHECK(off_after({.moments = dtype::e4m3, .stochastic_moments = true}, 60) < 0.1);
    CHECK(off_after({.moments = dtype::e5m2}, 60) < 0.2);
  }
  TEST_CASE("M12 a slow average stays where it is in bf16 unless it is rounded at random") {
    const auto decayed = [](const amp::storage_options& storage) {
      Tensors<float> t({4096});
      t.g[0].assign(4096, 1.f);
      MasterWeights<Adam> m(group(Adam{.lr = 1e-3}, t), storage);
      m.step();
      t.g[0].assign(4096, 0.f);
      for (int i = 0; i < 300; ++i) m.step();
      const std::vector<float> v = moments_of(m)[1].second;
      double sum = 0.;
      for (const float x : v) sum += double(x);
      return sum / 4096.;
    };
    const double exact = decayed({});
    CHECK(exact == doctest::Approx(0.001 * std::pow(0.999, 300)).epsilon(1e-4));
    CHECK(decayed({.moments = dtype::bf16}) == doctest::Approx(0.001).epsilon(0.01));
    CHECK(decayed({.moments = dtype::bf16, .stochastic_moments = true}) == doctest::Approx(exact).epsilon(0.002));
    CHECK(decayed({.moments = dtype::e4m3}) == doctest::Approx(exact).epsilon(0.01));  // the scale follows the average
  }
  TEST_CASE("M12 a tensor without a gradient keeps moments and scale, one of zeros has scale 1") {
    Tensors<float> t({20, 20});
    auto params = t.params();
    const auto source = std::make_shared<amp::FixedParams>(params);
    struct Half final : amp::ParamSource {
      std::vector<amp::Param> all;
      bool second = true;
      std::span<const amp::Param> refresh() override {
        view = all;
        if (!second) view[1].grad = nullptr;
        return view;
      }
      void zero_grad(std::size_t, amp::zeroing) override {}
      std::vector<amp::Param> view;
    };
    const auto half_source = std::make_shared<Half>();
    half_source->all = params;
    MasterWeights<Adam> m({{Adam{.lr = 0.1}, half_source, {}}}, {.moments = dtype::e4m3});
    m.step();
    const auto before = saved(m);
    half_source->second = false;
    t.g[0].assign(20, 3.f);
    m.step();
    const auto after = saved(m);
    CHECK(after.at("exp_avg.t1") == before.at("exp_avg.t1"));
    CHECK(after.at("exp_avg_scale.t1") == before.at("exp_avg_scale.t1"));
    CHECK(after.at("master.t1") == before.at("master.t1"));
    CHECK(after.at("exp_avg_scale.t0") != before.at("exp_avg_scale.t0"));
    Tensors<float> zeros({9});
    zeros.g[0].assign(9, 0.f);
    MasterWeights<Adam> still(group(Adam{}, zeros), {.moments = dtype::e4m3});
    const auto w = zeros.w[0];
    still.step();
    CHECK(floats(saved(still), "exp_avg_scale.t0")[0] == 1.f);
    CHECK(zeros.w[0] == w);
  }
  TEST_CASE("M12 momentum of SGD in fp8 begins with the first gradient and needs no state where there is none") {
    Tensors<float> a({64}), b({64});
    MasterWeights<Sgd> exact(group(Sgd{.lr = 0.1, .momentum = 0.9}, a)),
        low(group(Sgd{.lr = 0.1, .momentum = 0.9}, b), {.moments = dtype::e4m3});
    exact.step(), low.step();
    CHECK(a.w[0] == b.w[0]);  // the first step does not read the momentum
    exact.step(), low.step();
    for (std::size_t k = 0; k < 64; ++k) CHECK(b.w[0][k] == doctest::Approx(a.w[0][k]).epsilon(0.1));
    Tensors<float> c({64});
    MasterWeights<Sgd> plain(group(Sgd{.lr = 0.1}, c), {.moments = dtype::e4m3});
    plain.step();
    CHECK_FALSE(saved(plain).contains("momentum_buffer.t0"));
  }
  TEST_CASE("M7 the state of a step with scale and clip folded in does not depend on the loss scale, in fp8 too") {
    const auto run = [](float scale) {
      Tensors<bfloat16> t({50, 700});
      MasterWeights<Adam> m(group(Adam{.lr = 0.01}, t), {.masters = masters::remainder, .moments = dtype::e4m3});
      for (unsigned step = 0; step < 3; ++step) {
        t.draw_grads(step);
        for (auto& g : t.g)
          for (auto& x : g) x = bfloat16(float(x) * scale);
        m.step(1.f / scale, 0.5f);
      }
      return saved(m);
    };
    CHECK(run(1.f) == run(1024.f));
  }
}
