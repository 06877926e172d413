#include <doctest/doctest.h>

#include <amp/optim/clip.hpp>
#include <limits>

#include "golden/optim_torch.hpp"
#include "optim/golden_run.hpp"
#include "optim/reference.hpp"

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

/// 2-norm of all gradients, in double.
template <class W, class G>
double norm_of(const reference::Tensors<W, G>& t) {
  double sum = 0.;
  for (const auto& v : t.g)
    for (const auto& x : v) sum += static_cast<double>(float(x)) * static_cast<double>(float(x));
  return std::sqrt(sum);
}
}  // namespace

TEST_SUITE("optim/clip") {
  TEST_CASE("F9 the norm before is returned and the gradients are scaled by max/(norm + 1e-6)") {
    reference::Tensors<float> t({3, 200, 1});
    const auto before = t.g;
    const double norm = norm_of(t);
    CHECK(amp::clip_grad_norm(t.params(), 0.5) == doctest::Approx(norm).epsilon(1e-7));
    for (std::size_t i = 0; i < before.size(); ++i)
      for (std::size_t k = 0; k < before[i].size(); ++k)
        CHECK(t.g[i][k] == doctest::Approx(before[i][k] * 0.5 / (norm + 1e-6)).epsilon(1e-6));
  }
  TEST_CASE("F9 the 1e-6 stands beside the norm, not beside the limit") {
    CHECK(amp::clip_factor(1e-6, 5e-7) == doctest::Approx(0.25).epsilon(1e-12));
    CHECK(amp::clip_factor(0., 5e-7) == doctest::Approx(0.5).epsilon(1e-12));
    reference::Tensors<float> t({1});
    t.g[0] = {1e-6f};
    CHECK(amp::clip_grad_norm(t.params(), 5e-7) == doctest::Approx(1e-6).epsilon(1e-6));
    CHECK(t.g[0][0] == doctest::Approx(0.25e-6).epsilon(1e-5));
  }
  TEST_CASE("a norm below the limit changes no bit") {
    reference::Tensors<float> t({50});
    const auto before = t.g;
    amp::clip_grad_norm(t.params(), 1e9);
    CHECK(t.g == before);
  }
  TEST_CASE("F9 formats may be mixed, and missing gradients count nothing") {
    reference::Tensors<float> a({30});
    reference::Tensors<amp::half> b({40}, 2);
    reference::Tensors<amp::bfloat16> c({50}, 3);
    auto params = a.params("a");
    for (auto& p : b.params("b")) params.push_back(p);
    for (auto& p : c.params("c")) params.push_back(p);
    params.push_back({.name = "none", .value = a.w[0].data(), .grad = nullptr, .size = 30});
    const double expected = std::sqrt(std::pow(norm_of(a), 2) + std::pow(norm_of(b), 2) + std::pow(norm_of(c), 2));
    CHECK(amp::clip_grad_norm(params, 1.) == doctest::Approx(expected).epsilon(1e-7));
    const double after = std::sqrt(std::pow(norm_of(a), 2) + std::pow(norm_of(b), 2) + std::pow(norm_of(c), 2));
    CHECK(after == doctest::Approx(1.).epsilon(1e-2));
  }
  TEST_CASE("F9 other norms: the largest magnitude, the sum of magnitudes, any p") {
    reference::Tensors<float> t({4});
    t.g[0] = {3.f, -4.f, 0.f, 1.f};
    CHECK(amp::clip_grad_norm(t.params(), 1e9, {.norm_type = infinity}) == 4.);
    CHECK(amp::clip_grad_norm(t.params(), 1e9, {.norm_type = 1.}) == doctest::Approx(8.));
    CHECK(amp::clip_grad_norm(t.params(), 1e9, {.norm_type = 3.}) == doctest::Approx(std::cbrt(27. + 64. + 1.)));
    CHECK(amp::clip_grad_norm(t.params(), 2., {.norm_type = infinity}) == 4.);
    CHECK(t.g[0][1] == doctest::Approx(-2.).epsilon(1e-6));
  }
  TEST_CASE("F9 no gradients: the norm is 0") { CHECK(amp::clip_grad_norm({}, 1.) == 0.); }
  TEST_CASE("F9 a norm that is not finite turns infinities into NaN, or throws and leaves the gradients") {
    reference::Tensors<float> t({3});
    t.g[0] = {1.f, std::numeric_limits<float>::infinity(), 2.f};
    const auto before = t.g;
    CHECK_THROWS_AS(amp::clip_grad_norm(t.params(), 1., {.error_if_nonfinite = true}), amp::error);
    CHECK(t.g == before);
    CHECK(std::isinf(amp::clip_grad_norm(t.params(), 1.)));
    CHECK(t.g[0][0] == 0.f);
    CHECK(std::isnan(t.g[0][1]));
    t.g[0] = {1.f, std::nanf(""), 2.f};
    CHECK(std::isnan(amp::clip_grad_norm(t.params(), 1.)));
    CHECK(std::isnan(t.g[0][0]));
    t.g[0] = {1.f, std::nanf(""), 2.f};
    CHECK(std::isnan(amp::clip_grad_norm(t.params(), 1., {.norm_type = infinity})));
  }
  TEST_CASE("wrong limits throw") {
    reference::Tensors<float> t({3});
    CHECK_THROWS_AS(amp::clip_grad_norm(t.params(), -1.), amp::error);
    CHECK_THROWS_AS(amp::clip_grad_norm(t.params(), std::nan("")), amp::error);
    CHECK_THROWS_AS(amp::clip_grad_norm(t.params(), 1., {.norm_type = 0.}), amp::error);
  }

  TEST_CASE("F9 norm and clipped gradients are torch's, for p 1, 2, 3 and infinity") {
    for (const auto& [name, p] :
         std::vector<std::pair<std::string, double>>{{"p1", 1.}, {"p2", 2.}, {"p3", 3.}, {"infinity", infinity}}) {
      const auto& expected = golden::clip_grad_norm.at(name);
      golden::Tensors t;
      t.draw_grads(1);
      CHECK(amp::grad_norm(t.params(), p) == doctest::Approx(expected[0]).epsilon(1e-6));
      CHECK(amp::clip_grad_norm(t.params(), 0.5, {.norm_type = p}) == doctest::Approx(expected[0]).epsilon(1e-6));
      CHECK(golden::difference(t.g, std::vector<double>(expected.begin() + 1, expected.end())) < 1e-6);
    }
  }
  TEST_CASE("F9 weights are not touched by clipping") {
    reference::Tensors<amp::half> t({20});
    const auto before = t.w;
    amp::clip_grad_norm(t.params(), 0.1);
    amp::clip_grad_value(t.params(), 0.01);
    for (std::size_t k = 0; k < 20; ++k) CHECK(t.w[0][k].bits() == before[0][k].bits());
  }
  TEST_CASE("F9 clip_grad_value brings each element into its limits, infinities too, and keeps NaN") {
    reference::Tensors<float> a({5});
    reference::Tensors<amp::bfloat16> b({3}, 2);
    a.g[0] = {0.25f, -3.f, float(infinity), -float(infinity), std::nanf("")};
    b.g[0] = {amp::bfloat16(2.f), amp::bfloat16(-0.5f), amp::bfloat16(-9.f)};
    auto params = a.params("a");
    for (auto& p : b.params("b")) params.push_back(p);
    params.push_back({.name = "none", .value = a.w[0].data(), .grad = nullptr, .size = 5});
    amp::clip_grad_value(params, 1.);
    CHECK(std::vector<float>(a.g[0].begin(), a.g[0].begin() + 4) == std::vector<float>{0.25f, -1.f, 1.f, -1.f});
    CHECK(std::isnan(a.g[0][4]));
    CHECK(float(b.g[0][0]) == 1.f);
    CHECK(float(b.g[0][1]) == -0.5f);
    CHECK(float(b.g[0][2]) == -1.f);
    CHECK_THROWS_AS(amp::clip_grad_value(params, -1.), amp::error);
  }
  TEST_CASE("F9 a norm per group clips each group by its own") {
    reference::Tensors<float> a({2}), b({2});
    a.g[0] = {3.f, 4.f}, b.g[0] = {0.3f, 0.4f};
    const std::vector<std::vector<amp::Param>> groups{a.params(), b.params()};
    const auto norms = amp::clip_grad_norm_per_group(groups, 1.);
    CHECK(norms[0] == doctest::Approx(5.));
    CHECK(norms[1] == doctest::Approx(0.5));
    CHECK(a.g[0][0] == doctest::Approx(0.6).epsilon(1e-5));
    CHECK(b.g[0][0] == 0.3f);
  }
}
