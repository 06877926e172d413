#include <doctest/doctest.h>

#include <amp/optim/clip.hpp>
#include <limits>

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
  TEST_CASE("the norm before is returned and the gradients are scaled by max/(norm + 1e-6)") {
    reference::Tensors<float> t({3, 200, 1});
    const auto before = t.g;
    const double norm = norm_of(t);
    CHECK(amp::clip_grad_norm(t.params(), 0.5) == doctest::Approx(norm).epsilon(1e-7));
    for (std::size_t i = 0; i < before.size(); ++i)
      for (std::size_t k = 0; k < before[i].size(); ++k)
        CHECK(t.g[i][k] == doctest::Approx(before[i][k] * 0.5 / (norm + 1e-6)).epsilon(1e-6));
  }
  TEST_CASE("a norm below the limit changes no bit") {
    reference::Tensors<float> t({50});
    const auto before = t.g;
    amp::clip_grad_norm(t.params(), 1e9);
    CHECK(t.g == before);
  }
  TEST_CASE("formats may be mixed, and missing gradients count nothing") {
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
  TEST_CASE("other norms: the largest magnitude, the sum of magnitudes, any p") {
    reference::Tensors<float> t({4});
    t.g[0] = {3.f, -4.f, 0.f, 1.f};
    CHECK(amp::clip_grad_norm(t.params(), 1e9, {.norm_type = infinity}) == 4.);
    CHECK(amp::clip_grad_norm(t.params(), 1e9, {.norm_type = 1.}) == doctest::Approx(8.));
    CHECK(amp::clip_grad_norm(t.params(), 1e9, {.norm_type = 3.}) == doctest::Approx(std::cbrt(27. + 64. + 1.)));
    CHECK(amp::clip_grad_norm(t.params(), 2., {.norm_type = infinity}) == 4.);
    CHECK(t.g[0][1] == doctest::Approx(-2.).epsilon(1e-6));
  }
  TEST_CASE("no gradients: the norm is 0") { CHECK(amp::clip_grad_norm({}, 1.) == 0.); }
  TEST_CASE("a norm that is not finite turns infinities into NaN, or throws and leaves the gradients") {
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
}
