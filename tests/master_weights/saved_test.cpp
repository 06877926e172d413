#include <doctest/doctest.h>

#include <cmath>

#include "master_weights/instances.hpp"

using amp::Adam;
using amp::bfloat16;
using amp::dtype;
using amp::half;
using amp::masters;
using amp::MasterWeights;
using amp::scale_per;
using amp::storage_options;
using reference::Tensors;
using namespace test_masters;

namespace {
const Adam adam{.lr = 0.01, .weight_decay = 0.05};

/// A state after some steps.
template <class T>
amp::StateDict trained(const storage_options& storage, unsigned steps = 5) {
  Tensors<T> t({40, 700});
  MasterWeights<Adam> m(group(adam, t), storage);
  for (unsigned s = 0; s < steps; ++s) t.draw_grads(s), m.step();
  return saved(m);
}
/// The state that comes back after loading.
template <class T>
amp::StateDict through(const amp::StateDict& state, const storage_options& storage) {
  Tensors<T> t({40, 700}, 77);
  MasterWeights<Adam> m(group(adam, t), storage);
  m.load(state);
  return saved(m);
}
}  // namespace

TEST_SUITE("master_weights/saved") {
  TEST_CASE("M9 B48 a resumed run goes on bit for bit in every form, weights and all") {
    for (const auto& storage : std::vector<storage_options>{
             {},
             {.stochastic_copies = true, .seed = 2},
             {.masters = masters::remainder},
             {.masters = masters::remainder, .moments = dtype::bf16},
             {.masters = masters::kahan, .moments = dtype::fp16},
             {.masters = masters::kahan, .moments = dtype::e4m3, .scales = scale_per::block},
             {.masters = masters::stochastic, .moments = dtype::e4m3, .stochastic_moments = true, .seed = 11},
             {.masters = masters::fp16, .moments = {dtype::e5m2, dtype::fp16}},
             {.masters = masters::fp16, .scales = scale_per::block},
             {.masters = masters::none, .moments = dtype::e4m3},
             {.moments = dtype::e4m3, .flat = true}}) {
      CAPTURE(static_cast<int>(storage.masters));
      Tensors<bfloat16> a({40, 700}), b({40, 700}, 99);
      MasterWeights<Adam> m(group(adam, a), storage), resumed(group(adam, b), storage);
      for (unsigned s = 0; s < 4; ++s) a.draw_grads(s), m.step();
      const auto state = saved(m);
      resumed.load(state);
      CHECK(words(b.w[1]) == words(a.w[1]));
      CHECK(saved(resumed) == state);
      for (unsigned s = 4; s < 9; ++s) {
        a.draw_grads(s), b.draw_grads(s);
        m.step(), resumed.step();
      }
      CHECK(words(b.w[0]) == words(a.w[0]));
      CHECK(words(b.w[1]) == words(a.w[1]));
      CHECK(saved(resumed) == saved(m));
    }
  }
  TEST_CASE("M9 a parameter that trained and is frozen now keeps master and moments, saved, loaded, seen and counted") {
    for (const masters form :
         {masters::fp32, masters::remainder, masters::kahan, masters::stochastic, masters::fp16, masters::none}) {
      CAPTURE(static_cast<int>(form));
      const storage_options storage{.masters = form, .seed = 3};
      Tensors<bfloat16> a({40, 70}), b({40, 70}, 9);
      const auto source = std::make_shared<Changing>(a.params()), other = std::make_shared<Changing>(b.params());
      MasterWeights<Adam> m({{adam, source, {}}}, storage), resumed({{adam, other, {}}}, storage);
      for (unsigned s = 0; s < 4; ++s) a.draw_grads(s), m.step();
      const auto before = saved(m);
      const std::int64_t bytes = m.master_bytes() + m.moment_bytes();
      source->params[0].requires_grad = other->params[0].requires_grad = false;
      CHECK(saved(m) == before);
      CHECK(m.master_bytes() + m.moment_bytes() == bytes);
      std::vector<std::string> names;
      m.for_each_master([&](const amp::MasterView& v) {
        names.emplace_back(v.name);
        CHECK(v.grad.empty() == (v.name == "t0"));
      });
      CHECK(names == std::vector<std::string>{"t0", "t1"});
      m.skip();
      const auto frozen = words(a.w[0]);
      a.draw_grads(7), m.step();
      CHECK(words(a.w[0]) == frozen);
      CHECK(saved(m).at("master.t0") == before.at("master.t0"));
      CHECK(saved(m).at("master.t1") != before.at("master.t1"));
      resumed.load(before);
      CHECK(saved(resumed) == before);
      CHECK(words(b.w[0]) == frozen);
      const std::vector<float> ones(40, 1.f);
      CHECK(resumed.assign("t0", ones));
      CHECK(float(b.w[0][39]) == 1.f);
      source->params[0].requires_grad = other->params[0].requires_grad = true;  // and goes on where it stood
      a.draw_grads(9), m.step();
      CHECK(saved(m).at("master.t0") != before.at("master.t0"));
    }
  }
  TEST_CASE("M9 masters are loaded bit exactly and the low parameters are their rounding, never the other way") {
    Tensors<bfloat16> t({3});
    MasterWeights<Adam> m(group(Adam{}, t));
    auto state = saved(m);
    const float exact[] = {1.001f, -2.003f, 1e-20f};
    std::memcpy(state.at("master.t0").bytes.data(), exact, sizeof exact);
    t.w[0].assign(3, bfloat16(7.f));
    m.load(state);
    CHECK(master(m) == std::vector<float>(exact, exact + 3));
    for (std::size_t k = 0; k < 3; ++k) CHECK(t.w[0][k].bits() == bfloat16(exact[k]).bits());
  }
  TEST_CASE("M9 M11 a state moves between fp32 masters and remainders without losing a bit") {
    const auto wide = trained<bfloat16>({}), split = trained<bfloat16>({.masters = masters::remainder});
    CHECK(wide == split);
    CHECK(through<bfloat16>(wide, {.masters = masters::remainder}) == wide);
    CHECK(through<bfloat16>(split, {}) == split);
    CHECK(through<bfloat16>(through<bfloat16>(wide, {.masters = masters::kahan}), {}).at("master.t0") !=
          wide.at("master.t0"));  // 16 bits a weight hold less
  }
  TEST_CASE("a state goes from every form to every other, by its values") {
    const std::vector<storage_options> forms{
        {},
        {.masters = masters::remainder, .moments = dtype::bf16},
        {.masters = masters::kahan, .moments = dtype::e4m3},
        {.masters = masters::fp16, .moments = dtype::fp16, .scales = scale_per::block},
        {.masters = masters::none, .moments = {dtype::e4m3, dtype::fp32}}};
    for (const auto& from : forms) {
      const auto state = trained<bfloat16>(from);
      Tensors<bfloat16> source({40, 700}, 3);
      MasterWeights<Adam> reader(group(adam, source), from);
      reader.load(state);
      std::vector<std::vector<float>> exact, moments;
      reader.for_each_master([&](const amp::MasterView& v) { exact.emplace_back(v.value.begin(), v.value.end()); });
      reader.for_each_moment([&](const amp::MomentView& v) { moments.emplace_back(v.value.begin(), v.value.end()); });
      for (const auto& to : forms) {
        Tensors<bfloat16> t({40, 700}, 5);
        MasterWeights<Adam> m(group(adam, t), to);
        m.load(state);
        CHECK(m.group(0).step == 5);
        std::size_t at = 0;
        m.for_each_master([&](const amp::MasterView& v) {
          for (std::size_t k = 0; k < v.value.size(); ++k)
            CHECK(v.value[k] == doctest::Approx(exact[at][k]).epsilon(0.004));
          ++at;
        });
        at = 0;
        m.for_each_moment([&](const amp::MomentView& v) {
          float peak = 0.f;
          for (const float x : moments[at]) peak = std::max(peak, std::fabs(x));
          for (std::size_t k = 0; k < v.value.size(); ++k)
            CHECK(std::fabs(v.value[k] - moments[at][k]) <= std::fabs(moments[at][k]) * 0.14f + peak * 3e-6f);
          ++at;
        });
        CHECK(at == 4);
      }
    }
  }
  TEST_CASE("M1 L7 low moments that a state brings are recast to the optimizer's format") {
    auto state = trained<half>({});
    const auto moments = floats(state, "exp_avg.t0");
    std::vector<bfloat16> low;
    for (const float x : moments) low.emplace_back(x);
    auto& entry = state.at("exp_avg.t0");
    entry.type = "BF16";
    entry.bytes.assign(reinterpret_cast<const std::byte*>(low.data()),
                       reinterpret_cast<const std::byte*>(low.data() + low.size()));
    const auto back = through<half>(state, {});
    CHECK(back.at("exp_avg.t0").type == "F32");
    for (std::size_t k = 0; k < low.size(); ++k) CHECK(floats(back, "exp_avg.t0")[k] == float(low[k]));
    CHECK(back.at("exp_avg.t1") == state.at("exp_avg.t1"));
  }
  TEST_CASE("weights saved beside masters in another format are not taken") {
    const auto state = trained<half>({.masters = masters::kahan});
    CHECK(state.at("weight.t0").type == "F16");
    const auto back = through<bfloat16>(state, {.masters = masters::kahan});
    CHECK(back.at("weight.t0").type == "BF16");
    const auto x = floats(state, "master.t0"), y = floats(back, "master.t0");
    for (std::size_t k = 0; k < x.size(); ++k) CHECK(y[k] == doctest::Approx(x[k]).epsilon(1e-4));
  }
  TEST_CASE("low weights without masters load into masters, which then hold what there was") {
    const auto low = trained<half>({.masters = masters::none});
    CHECK(low.at("master.t0").type == "F16");
    CHECK_FALSE(low.contains("master_scale.t0"));
    const auto wide = through<half>(low, {});
    CHECK(wide.at("master.t0").type == "F32");
    CHECK(through<half>(wide, {.masters = masters::none}).at("master.t0") == low.at("master.t0"));
  }
  TEST_CASE("what does not fit is refused by its key before anything changes") {
    const storage_options storage{.masters = masters::remainder, .moments = dtype::e4m3};
    const auto state = trained<bfloat16>(storage);
    Tensors<bfloat16> t({40, 700}, 5);
    MasterWeights<Adam> m(group(adam, t), storage);
    const auto before = saved(m);
    const auto refuse = [&](const std::string& key, auto&& spoil) {
      auto bad = state;
      spoil(bad);
      CHECK_THROWS_WITH_AS(m.load(bad), doctest::Contains(key.c_str()), amp::error);
      CHECK(saved(m) == before);
    };
    refuse("master.t1", [](auto& s) { s.erase("master.t1"); });
    refuse("master.t1", [](auto& s) { s.at("master.t1").type = "F64"; });
    refuse("exp_avg_scale.t1", [](auto& s) { s.erase("exp_avg_scale.t1"); });
    refuse("exp_avg_scale.t1", [](auto& s) { s.at("exp_avg_scale.t1").bytes.resize(8); });
    refuse("exp_avg_sq.t1", [](auto& s) { s.at("exp_avg_sq.t1").bytes.pop_back(); });
    refuse("exp_avg_sq.t1", [](auto& s) { s.erase("exp_avg_sq.t1"); });
    refuse("group.0.step", [](auto& s) { amp::save_value<std::int64_t>(s, "group.0.step", -7); });
    refuse("Adam: lr must be", [](auto& s) { amp::save_value(s, "group.0.lr", -3.); });
    refuse("Adam: lr must be", [](auto& s) { amp::save_value(s, "group.0.lr", std::nan("")); });
    m.load(state);
    CHECK(saved(m) == state);
  }
}
