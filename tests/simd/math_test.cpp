#include <doctest/doctest.h>

#include <algorithm>
#include <amp/simd/load.hpp>
#include <amp/simd/math.hpp>
#include <amp/simd/target.hpp>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "simd/targets.hpp"

using amp::simd::target;

namespace {

enum function { exp_, log_, tanh_, sigmoid_, erf_, cdf_, pdf_, rsqrt_, functions };
const std::string names[] = {"exp", "log", "tanh", "sigmoid", "erf", "normal_cdf", "normal_pdf", "rsqrt"};

/// All functions of n values; n is a multiple of 16.
struct all_functions {
  template <class V>
  AMP_INLINE static void run(const float* in, float* out, std::int64_t n) {
    using namespace amp::simd;
    for (std::int64_t i = 0; i < n; i += lanes<V>) {
      const V x = load<V>(in + i);
      store(out + exp_ * n + i, exp(x));
      store(out + log_ * n + i, log(x));
      store(out + tanh_ * n + i, tanh(x));
      store(out + sigmoid_ * n + i, sigmoid(x));
      store(out + erf_ * n + i, erf(x));
      store(out + cdf_ * n + i, normal_cdf(x));
      store(out + pdf_ * n + i, normal_pdf(x));
      store(out + rsqrt_ * n + i, rsqrt(x));
    }
  }
};
std::vector<float> compute(target t, const std::vector<float>& x) {
  const auto n = static_cast<std::int64_t>(x.size());
  std::vector<float> out(x.size() * functions);
  amp::simd::kernel<all_functions, const float*, float*, std::int64_t>(t)(x.data(), out.data(), n);
  return out;
}

struct fused {
  template <class V>
  AMP_INLINE static void run(const float* a, const float* b, const float* c, float* out, std::int64_t n) {
    using namespace amp::simd;
    for (std::int64_t i = 0; i < n; i += lanes<V>) store(out + i, fma(load<V>(a + i), load<V>(b + i), load<V>(c + i)));
  }
};

/// Floats spread over all bit patterns, specials first; a multiple of 16 of them.
std::vector<float> spread(std::uint32_t step) {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> x{
      0.f,          -0.f,           inf,           -inf,      std::numeric_limits<float>::quiet_NaN(), 1.f,
      -1.f,         0x1p-126f,      -0x1p-126f,    0x1p-149f, std::numeric_limits<float>::max(),       0x1.62e42ep6f,
      0x1.62e43p6f, -0x1.5d589ep6f, -0x1.5d58ap6f, 0.625f};
  for (std::uint64_t bits = 0; bits < 0x100000000u; bits += step)
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  x.resize(x.size() / 16 * 16);
  return x;
}
bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

double reference(int f, double x) {
  switch (f) {
    case exp_:
      return std::exp(x);
    case log_:
      return std::log(x);
    case tanh_:
      return std::tanh(x);
    case sigmoid_:
      return 1 / (1 + std::exp(-x));
    case erf_:
      return std::erf(x);
    case cdf_:
      return std::erfc(-x / std::numbers::sqrt2) / 2;
    case pdf_:
      return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
    default:
      return 1 / std::sqrt(x);
  }
}
/// Distance in units of the last place of a float near `exact`.
double ulps(float got, double exact) {
  int exponent = 0;
  std::frexp(exact, &exponent);
  return std::abs(static_cast<double>(got) - exact) / std::ldexp(1.0, std::max(exponent, -125) - 24);
}

}  // namespace

TEST_SUITE("simd/math") {
  TEST_CASE("exp, log, tanh, sigmoid, erf, the normal distribution and rsqrt give equal bits on every target") {
    const std::vector<float> x = spread(40009);
    const std::vector<float> expected = compute(target::scalar, x);
    for (const target t : test_simd::targets()) {
      const std::vector<float> got = compute(t, x);
      for (int f = 0; f < functions; ++f) {
        CAPTURE(amp::simd::name(t));
        CAPTURE(names[f]);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < x.size(); ++i) {
          const auto at = static_cast<std::size_t>(f) * x.size() + i;
          wrong += same(got[at], expected[at]) ? 0 : 1;
        }
        CHECK(wrong == 0);
      }
    }
  }

  TEST_CASE("every function stays within its stated bound of the double-precision value") {
    const double bound[functions] = {1.0, 1.0, 2.0, 2.0, 3.0, 8.0, 3.0, 1.5};
    std::vector<float> x = spread(4099);
    for (int i = -60000; i < 60000; ++i) x.push_back(static_cast<float>(i) * 1.7e-4f);  // dense where it matters
    x.resize(x.size() / 16 * 16);
    const std::vector<float> got = compute(amp::simd::best_target(), x);
    for (int f = 0; f < functions; ++f) {
      double worst = 0;
      float where = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double exact = reference(f, static_cast<double>(x[i]));
        // Results below 2^-126, and what the header says counts as 0, have their own case.
        if (!std::isfinite(exact) || std::abs(exact) < 0x1p-125 || std::abs(exact) > 3.4e38) continue;
        if (std::abs(x[i]) < 0x1p-126f && f != exp_) continue;
        const double off = ulps(got[static_cast<std::size_t>(f) * x.size() + i], exact);
        if (off > worst) worst = off, where = x[i];
      }
      CAPTURE(names[f]);
      CAPTURE(where);
      MESSAGE(names[f], ": at most ", worst, " ulp, at ", where);
      CHECK(worst <= bound[f]);
    }
  }

  TEST_CASE("special values: infinities, NaN, zeros and results out of range") {
    const float inf = std::numeric_limits<float>::infinity();
    const float nan = std::numeric_limits<float>::quiet_NaN();
    namespace s = amp::simd;
    CHECK(s::exp(-inf) == 0.f);
    CHECK(s::exp(inf) == inf);
    CHECK(s::exp(89.f) == inf);
    CHECK(s::exp(-88.f) == 0.f);
    CHECK(s::exp(0.f) == 1.f);
    CHECK(std::isnan(s::exp(nan)));
    CHECK(s::log(0.f) == -inf);
    CHECK(s::log(-0.f) == -inf);
    CHECK(s::log(inf) == inf);
    CHECK(s::log(1.f) == 0.f);
    CHECK(std::isnan(s::log(-1.f)));
    CHECK(std::isnan(s::log(-inf)));
    CHECK(std::isnan(s::log(nan)));
    CHECK(s::tanh(inf) == 1.f);
    CHECK(s::tanh(-inf) == -1.f);
    CHECK(std::signbit(s::tanh(-0.f)));
    CHECK(std::isnan(s::tanh(nan)));
    CHECK(s::erf(inf) == 1.f);
    CHECK(s::erf(-inf) == -1.f);
    CHECK(std::isnan(s::erf(nan)));
    CHECK(s::sigmoid(-inf) == 0.f);
    CHECK(s::sigmoid(inf) == 1.f);
    CHECK(s::normal_cdf(-inf) == 0.f);
    CHECK(s::normal_cdf(inf) == 1.f);
    CHECK(s::normal_cdf(0.f) == doctest::Approx(0.5));
    CHECK(std::isnan(s::normal_cdf(nan)));
    CHECK(s::normal_pdf(inf) == 0.f);
    CHECK(std::isnan(s::normal_pdf(nan)));
    CHECK(s::rsqrt(0.f) == inf);
    CHECK(s::rsqrt(4.f) == 0.5f);
  }

  TEST_CASE("fma rounds once on every target, where a product and a sum would round twice") {
    std::vector<float> a, b, c;
    std::uint64_t state = 12345;
    const auto next = [&] {
      state = state * 6364136223846793005u + 1442695040888963407u;
      return static_cast<std::uint32_t>(state >> 32);
    };
    for (int i = 0; i < 1 << 16; ++i) {  // exponents near one another, so that cancellation and sticky bits are common
      const auto value = [&](std::uint32_t around) {
        return std::bit_cast<float>((next() & 0x807fffffu) | ((around + next() % 40) << 23));
      };
      a.push_back(value(107)), b.push_back(value(107)), c.push_back(value(90));
      if (i % 8 == 0) c.back() = -a.back() * b.back();          // what is left is the product's rounding error
      if (i % 8 == 1) c.back() = std::bit_cast<float>(next());  // anything, infinities and NaNs too
      if (i % 8 == 2) a.back() = std::bit_cast<float>(next());
    }
    const auto n = static_cast<std::int64_t>(a.size());
    std::vector<float> got(a.size());
    std::size_t differs_from_two_roundings = 0;
    for (const target t : test_simd::targets()) {
      amp::simd::kernel<fused, const float*, const float*, const float*, float*, std::int64_t>(t)(
          a.data(), b.data(), c.data(), got.data(), n);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < a.size(); ++i) {
        wrong += same(got[i], std::fma(a[i], b[i], c[i])) ? 0 : 1;
        differs_from_two_roundings += same(got[i], a[i] * b[i] + c[i]) ? 0 : 1;
      }
      CAPTURE(amp::simd::name(t));
      CHECK(wrong == 0);
    }
    CHECK(differs_from_two_roundings > 1000);
  }

  TEST_CASE("fma and exp agree between targets inside a flush scope too") {
    const amp::simd::flush_scope flush;
    const std::vector<float> x = spread(400009);
    const std::vector<float> expected = compute(target::scalar, x);
    std::vector<float> y(x.rbegin(), x.rend()), first(x.size()), got(x.size());
    const auto n = static_cast<std::int64_t>(x.size());
    const auto run = [&](target t, std::vector<float>& out) {
      amp::simd::kernel<fused, const float*, const float*, const float*, float*, std::int64_t>(t)(
          x.data(), y.data(), x.data(), out.data(), n);
    };
    run(target::scalar, first);
    for (const target t : test_simd::targets()) {
      const std::vector<float> all = compute(t, x);
      run(t, got);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < all.size(); ++i) wrong += same(all[i], expected[i]) ? 0 : 1;
      for (std::size_t i = 0; i < got.size(); ++i) wrong += same(got[i], first[i]) ? 0 : 1;
      CAPTURE(amp::simd::name(t));
      CHECK(wrong == 0);
    }
  }
}
