#include <doctest/doctest.h>

#include <amp/nn/activation.hpp>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

namespace {
double normal_cdf(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }
double normal_pdf(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }
double inner(double x) { return std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x); }

/// The largest error of f and its slope over [-12, 12], relative to 1 + magnitude.
template <class F, class Value, class Slope>
void check(const F& f, const Value& value, const Slope& slope, double tolerance) {
  double off = 0, off_slope = 0;
  for (int i = -12000; i <= 12000; ++i) {
    const float x = static_cast<float>(i) * 1e-3f;
    const double wide = static_cast<double>(x), want = value(wide), want_slope = slope(wide);
    off = std::max(off, std::abs(static_cast<double>(f(x)) - want) / (1e-3 + std::abs(want)));
    off_slope = std::max(off_slope, std::abs(static_cast<double>(f.slope(x)) - want_slope));
  }
  CHECK(off < tolerance);
  CHECK(off_slope < 3 * tolerance);
}
}  // namespace

TEST_SUITE("nn/activation") {
  TEST_CASE("G2 both kinds of GELU and their slopes match double precision, in the lower tail too") {
    check(
        amp::nn::gelu_erf{}, [](double x) { return x * normal_cdf(x); },
        [](double x) { return normal_cdf(x) + x * normal_pdf(x); }, 1e-6);
    check(
        amp::nn::gelu_tanh{}, [](double x) { return 0.5 * x * (1 + std::tanh(inner(x))); },
        [](double x) {
          const double t = std::tanh(inner(x)), s = std::sqrt(2 / std::numbers::pi) * (1 + 3 * 0.044715 * x * x);
          return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * s;
        },
        1e-6);
    const float x = -6.f;  // 0.5 (1 + erf) would have lost all digits
    CHECK(static_cast<double>(amp::nn::gelu_erf{}(x)) == doctest::Approx(-6 * normal_cdf(-6)).epsilon(1e-6));
  }

  TEST_CASE("ReLU and sigmoid with their slopes, from the input and from the output") {
    const amp::nn::sigmoid s;
    check(
        s, [](double x) { return 1 / (1 + std::exp(-x)); },
        [](double x) { return 1 / (1 + std::exp(-x)) * (1 - 1 / (1 + std::exp(-x))); }, 1e-6);
    CHECK(s.slope(0.3f) == s.slope_from_output(s(0.3f)));
    const amp::nn::relu r;
    CHECK((r(2.f) == 2.f && r(-2.f) == 0.f && r(0.f) == 0.f));
    CHECK((r.slope(2.f) == 1.f && r.slope(-2.f) == 0.f && r.slope(0.f) == 0.f && r.slope_from_output(1.f) == 1.f));
    CHECK(std::isnan(r(std::numeric_limits<float>::quiet_NaN())));
    CHECK((amp::nn::no_activation{}(3.f) == 3.f && amp::nn::no_activation{}.slope(3.f) == 1.f));
  }

  TEST_CASE("slopes stay finite at the largest magnitudes, where factors overflow") {
    const float top = std::numeric_limits<float>::max();
    for (const float x : {top, -top, 1e20f, -1e20f, 1e5f, -1e5f}) {
      CAPTURE(x);
      CHECK(amp::nn::gelu_tanh{}.slope(x) == (x > 0.f ? 1.f : 0.f));
      CHECK(amp::nn::gelu_erf{}.slope(x) == (x > 0.f ? 1.f : 0.f));
      CHECK(amp::nn::gelu_tanh{}(x) == (x > 0.f ? x : 0.f));
      CHECK(amp::nn::gelu_erf{}(x) == (x > 0.f ? x : 0.f));
    }
  }

  static_assert(amp::nn::InvertibleSlope<amp::nn::relu> && amp::nn::InvertibleSlope<amp::nn::sigmoid> &&
                !amp::nn::InvertibleSlope<amp::nn::gelu_erf> && amp::nn::Activation<amp::nn::gelu_tanh>);
}
