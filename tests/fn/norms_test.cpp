#include <doctest/doctest.h>

#include <amp/fn/count_nonfinite.hpp>
#include <amp/fn/l2norm_scale.hpp>
#include <amp/fn/norms.hpp>
#include <amp/fn/scale.hpp>
#include <amp/optim/executor.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "apply/tensors.hpp"
#include "simd/targets.hpp"

using amp::dtype;
using amp::norm_kind;
using test_apply::Tensors;
namespace exec = amp::exec;
namespace fn = amp::fn;
namespace lane = amp::lane;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
const auto sizes = test_apply::awkward_sizes();
const std::vector<dtype> mixed{dtype::fp32, dtype::bf16, dtype::fp16, dtype::e5m2};

/// p-norm of one tensor in double, one element after the other; the largest magnitude for infinity.
double by_definition(const Tensors& x, std::size_t t, double p) {
  double sum = 0;
  for (std::int64_t i = 0; i < x.list()[t].size; ++i) {
    const double a = std::fabs(static_cast<double>(x.at(t, i)));
    sum = std::isinf(p) ? std::fmax(sum, a) : sum + std::pow(a, p);
  }
  return std::isinf(p) ? sum : std::pow(sum, 1. / p);
}
amp::norm_result pnorm(const exec::any& executor, const Tensors& x, double p) {
  return fn::pnorm(executor, x.list(), p);
}

}  // namespace

TEST_SUITE("fn/norms") {
  TEST_CASE("A9 maxnorm and p-norms agree with their definition, with equal bits everywhere") {
    Tensors x(sizes, mixed);
    x.randomize(1, 1.f);
    for (const double p : {1., 3., 0.5, static_cast<double>(infinity)}) {
      const auto norm = pnorm(exec::scalar{}, x, p);
      CHECK(norm.finite);
      double total = 0;
      for (std::size_t t = 0; t < sizes.size(); ++t) {
        const double expected = by_definition(x, t, p);
        CHECK(norm.per_tensor[t] == doctest::Approx(expected).epsilon(1e-5));
        total = std::isinf(p) ? std::fmax(total, expected) : total + std::pow(expected, p);
      }
      CHECK(norm.total == doctest::Approx(std::isinf(p) ? total : std::pow(total, 1. / p)).epsilon(1e-5));
      const auto check = [&](const exec::any& executor) {
        const auto other = pnorm(executor, x, p);
        CHECK(other.total == norm.total);
        CHECK(other.per_tensor == norm.per_tensor);
      };
      for (const auto t : test_simd::targets()) check(exec::vectorized{.target = t});
      check(exec::threads{3});
    }
  }
  TEST_CASE("A9 maxnorm is exact, finds the last element of a tail, and keeps infinity and NaN") {
    Tensors x({5, 66001, 0}, {dtype::fp16});
    x.fill(-0.25f);
    x.set(1, 66000, -3.f);
    const auto norm = fn::maxnorm(exec::vectorized{}, x.list());
    CHECK(norm.per_tensor == std::vector<double>{0.25, 3., 0.});
    x.set(0, 4, -infinity);
    CHECK(std::isinf(fn::maxnorm(exec::vectorized{}, x.list()).total));
    x.set(0, 0, std::numeric_limits<float>::quiet_NaN());
    for (const auto t : test_simd::targets()) {
      const auto found = fn::maxnorm(exec::vectorized{.target = t}, x.list());
      CHECK(std::isnan(found.per_tensor[0]));
      CHECK(std::isnan(found.total));
      CHECK(found.first_nonfinite == 0);
    }
  }
  TEST_CASE("A9 sums of finite fp32 magnitudes never overflow") {
    Tensors x({3, 100}, {dtype::fp32});
    x.fill(3e38f);
    CHECK(pnorm(exec::vectorized{}, x, 1.).total == doctest::Approx(103. * static_cast<double>(3e38f)));
    CHECK(pnorm(exec::vectorized{}, x, 3.).total == doctest::Approx(std::cbrt(103.) * static_cast<double>(3e38f)));
    CHECK_THROWS_WITH_AS(static_cast<void>(pnorm(exec::scalar{}, x, 0.)), doctest::Contains("must be positive"),
                         amp::error);
  }
  TEST_CASE("A9 F7 blended norms are sqrt(a*old^2 + b*n^2), or a*old + b*n for the largest magnitude") {
    CHECK(fn::blended_norm(3., 4., 0.75, 0.25, norm_kind::two) == doctest::Approx(std::sqrt(0.75 * 9 + 0.25 * 16)));
    CHECK(fn::blended_norm(3., 4., 0.75, 0.25, norm_kind::infinity) == doctest::Approx(3.25));
  }
  TEST_CASE("A9 unscale_l2norm is the norm of the product, and the input is not written") {
    Tensors g({1000, 70000}, {dtype::fp16});
    g.randomize(2, 1024.f);
    const auto before = g.bytes();
    CHECK(fn::unscale_l2norm(exec::vectorized{}, g.list(), 0x1p-10f).total ==
          fn::l2norm(exec::vectorized{}, g.list()).total * 0x1p-10);
    CHECK(g.bytes() == before);
  }
  TEST_CASE("A9 A6 l2norm_mp does nothing when the flag is set on entry") {
    Tensors x({4, 2}, {dtype::fp32});
    x.fill(1.f);
    amp::nonfinite_report report;
    CHECK(fn::l2norm_mp(exec::vectorized{}, x.list(), report).total == doctest::Approx(std::sqrt(6.)));
    x.set(1, 0, infinity);
    CHECK_FALSE(fn::l2norm_mp(exec::vectorized{}, x.list(), report).finite);
    CHECK(report.flag == 1);
    x.list()[0].data = nullptr;  // nothing is read
    const auto none = fn::l2norm_mp(exec::vectorized{}, x.list(), report);
    CHECK(none.total == 0.);
    CHECK(none.per_tensor == std::vector<double>{0., 0.});
    CHECK(report.flag == 1);
  }
}

TEST_SUITE("fn/l2norm_scale") {
  TEST_CASE("A9 l2norm_scale writes in * a and gives the norm of the unscaled input, in place too") {
    for (const bool in_place : {false, true}) {
      Tensors in(sizes, mixed), out(sizes, {dtype::fp32}), original(sizes, mixed), alone(sizes, {dtype::fp32});
      in.randomize(4, 1.f), original.randomize(4, 1.f), out.fill(9.f), alone.fill(9.f);
      const auto expected = fn::l2norm(exec::vectorized{}, original.list());
      const Tensors& to = in_place ? in : out;
      const auto norm = fn::l2norm_scale(exec::threads{2}, to.list(), in.list(), 0.5f);
      CHECK(norm.total == expected.total);
      CHECK(norm.per_tensor == expected.per_tensor);
      amp::nonfinite_report report;
      Tensors& scaled = in_place ? original : alone;
      fn::scale(exec::vectorized{}, scaled.list(), original.list(), 0.5f, report);
      CHECK(to.bytes() == scaled.bytes());
      CHECK(to.guards_intact());
    }
  }
  TEST_CASE("A9 l2norm_scale in place gives a finite norm where fp32 squares overflow") {
    Tensors x({66000}, {dtype::fp32});
    x.fill(2e19f);
    const auto norm = fn::l2norm_scale(exec::vectorized{}, x.list(), x.list(), 2.f);
    CHECK(norm.finite);
    CHECK(norm.total == doctest::Approx(2e19 * std::sqrt(66000.)));
    CHECK(x.at(0, 65999) == 4e19f);
  }
}

TEST_SUITE("fn/count_nonfinite") {
  TEST_CASE("A9 S16 infinities and NaNs are counted apart, per tensor and exactly") {
    for (const dtype type : {dtype::fp32, dtype::fp16, dtype::bf16, dtype::e5m2}) {
      Tensors x({0, 70001, 3}, {type});
      x.fill(1.f);
      for (std::int64_t i = 0; i < 70001; i += 7) x.set(1, i, i % 2 == 0 ? infinity : -infinity);
      x.set(1, 70000, std::numeric_limits<float>::quiet_NaN());
      x.set(2, 0, std::numeric_limits<float>::quiet_NaN());
      x.set(2, 2, -infinity);
      const auto before = x.bytes();
      const auto counts = fn::count_nonfinite(exec::threads{2}, x.list());
      const std::int64_t seventh = (70001 + 6) / 7, lost = 70000 % 7 == 0 ? 1 : 0;
      CHECK(counts.inf == std::vector<std::int64_t>{0, seventh - lost, 1});
      CHECK(counts.nan == std::vector<std::int64_t>{0, 1, 1});
      CHECK(counts.total_inf == seventh - lost + 1);
      CHECK(counts.total_nan == 2);
      CHECK(x.bytes() == before);
    }
    const auto none = fn::count_nonfinite(exec::scalar{}, amp::tensor_list{});
    CHECK(none.total_inf + none.total_nan == 0);
  }
}
