#include <doctest/doctest.h>

#include <amp/optim/novograd.hpp>
#include <span>

#include "optim/golden_run.hpp"
#include "optim/reference.hpp"

using amp::norm_kind;
using amp::NovoGrad;

namespace {
constexpr double tolerance = 1e-6;
}  // namespace

TEST_SUITE("optim/novograd") {
  TEST_CASE("F7 NovoGrad leads where its formula does, in every form") {
    const NovoGrad o{.lr = 0.05, .beta2 = 0.98, .weight_decay = 0.1};
    CHECK(golden::difference(o, "novograd") < tolerance);
    NovoGrad inside = o, zero = o, infinity = o;
    inside.reg_inside_moment = true;
    zero.init_zero = true;
    infinity.norm = norm_kind::infinity;
    CHECK(golden::difference(inside, "novograd_inside") < tolerance);
    CHECK(golden::difference(zero, "novograd_init_zero") < tolerance);
    CHECK(golden::difference(infinity, "novograd_infinity") < tolerance);
    CHECK(golden::difference(o, "novograd_inside") > 1e-4);
  }
  TEST_CASE("F7 the number of tensors with gradients must stay the same") {
    const auto source = std::make_shared<reference::Partial>();
    amp::MasterWeights<NovoGrad> m({{NovoGrad{}, source}});
    m.step();
    CHECK(source->w[1] == 1.f);
    m.step();
    source->second_has_grad = true;
    CHECK_THROWS_WITH_AS(m.step(), doctest::Contains("NovoGrad keeps norms of 1 tensors"), amp::error);
  }
  TEST_CASE("F7 one norm per tensor is kept, not squared, blended with each new one") {
    reference::Tensors<float> t({2, 1});
    t.g = {{3.f, 4.f}, {2.f}};
    amp::MasterWeights<NovoGrad> m({{NovoGrad{.beta2 = 0.75}, t.source()}});
    m.step();
    CHECK(m.group(0).tensor_state[0][0] == doctest::Approx(5.));
    CHECK(m.group(0).tensor_state[0][1] == doctest::Approx(2.));
    t.g = {{0.f, 0.f}, {4.f}};
    m.step();
    CHECK(m.group(0).tensor_state[0][0] == doctest::Approx(std::sqrt(0.75) * 5.));
    CHECK(m.group(0).tensor_state[0][1] == doctest::Approx(std::sqrt(0.75 * 4. + 0.25 * 16.)));
  }
  TEST_CASE("F7 a resumed run goes on bit for bit, kept norms included") {
    reference::Tensors<amp::bfloat16> a({5, 40}), b({5, 40}, 9);
    amp::MasterWeights<NovoGrad> first({{NovoGrad{.lr = 0.1}, a.source()}}), second({{NovoGrad{}, b.source()}});
    first.step(), first.step();
    amp::StateDict saved;
    first.save(saved);
    second.load(saved);
    for (unsigned step = 5; step < 7; ++step) {
      a.draw_grads(step), b.draw_grads(step);
      first.step(), second.step();
    }
    amp::StateDict x, y;
    first.save(x), second.save(y);
    CHECK(x == y);
  }
  TEST_CASE("F7 a tensor whose gradient is always zero stays, and stays finite") {
    reference::Tensors<amp::half> t({6});
    for (auto& g : t.g[0]) g = amp::half(0.f);
    const auto before = t.w;
    amp::MasterWeights<NovoGrad> m({{NovoGrad{}, t.source()}}, false);
    m.step(), m.step();
    for (std::size_t k = 0; k < 6; ++k) CHECK(t.w[0][k].bits() == before[0][k].bits());
  }
  TEST_CASE("F7 options out of range throw when the group is made") {
    CHECK_THROWS_AS((NovoGrad::group{NovoGrad{.beta2 = 1.}}), amp::error);
    CHECK_THROWS_AS((NovoGrad::group{NovoGrad{.eps = 1e-50}}), amp::error);
    CHECK_THROWS_WITH_AS((NovoGrad::group{NovoGrad{.eps = 0.}}), doctest::Contains("NovoGrad: eps"), amp::error);
  }
}
