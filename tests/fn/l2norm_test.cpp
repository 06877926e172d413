#include <doctest/doctest.h>

#include <amp/fn/l2norm.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "apply/tensors.hpp"

using amp::dtype;
using amp::fn::l2norm;
using test_apply::Tensors;
namespace exec = amp::exec;
namespace lane = amp::lane;

TEST_SUITE("fn/l2norm") {
  TEST_CASE("A9 the norm agrees with a sum in double, in all and per tensor") {
    const auto sizes = test_apply::awkward_sizes();
    Tensors x(sizes, {dtype::fp32, dtype::bf16, dtype::fp16});
    x.randomize(1, 1e-3f);
    const auto norm = l2norm(exec::vectorized{}, x.list());
    double total = 0;
    REQUIRE(norm.per_tensor.size() == sizes.size());
    for (std::size_t t = 0; t < sizes.size(); ++t) {
      double sum = 0;
      for (std::int64_t i = 0; i < sizes[t]; ++i) sum += static_cast<double>(x.at(t, i)) * x.at(t, i);
      total += sum;
      CHECK(norm.per_tensor[t] == doctest::Approx(std::sqrt(sum)).epsilon(1e-6));
      if (sizes[t] == 0) CHECK(norm.per_tensor[t] == 0.0);
    }
    CHECK(norm.total == doctest::Approx(std::sqrt(total)).epsilon(1e-6));
  }

  TEST_CASE(
      "a scaled lane gives the norm of the unscaled gradients, exactly so for powers of two, and writes nothing") {
    Tensors g({1000, 70000}, {dtype::fp16});
    g.randomize(2, 1024.f);
    const auto before = g.bytes();
    const auto scaled = l2norm(exec::vectorized{}, lane::in(g.list(), 0x1p-10f));
    CHECK(scaled.total == l2norm(exec::vectorized{}, g.list()).total * 0x1p-10);
    CHECK(g.bytes() == before);
  }

  TEST_CASE("A9 2^20 values of 65504 have a finite norm") {
    Tensors x({1 << 20}, {dtype::fp16});
    x.fill(65504.f);
    const auto norm = l2norm(exec::vectorized{}, x.list());
    CHECK(norm.finite);
    CHECK(norm.total == doctest::Approx(65504.0 * 1024).epsilon(1e-6));
  }

  TEST_CASE("values up to the largest fp32 give a finite norm, infinite or NaN ones are reported with their tensor") {
    for (const float odd : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()}) {
      Tensors x({0, 5, 66000, 3}, {dtype::fp32});
      x.fill(std::numeric_limits<float>::max());
      CHECK(l2norm(exec::vectorized{}, x.list()).finite);
      x.set(2, 65999, odd);
      x.set(3, 2, odd);
      const auto norm = l2norm(exec::threads{2}, x.list());
      CHECK_FALSE(norm.finite);
      CHECK(norm.first_nonfinite == 2);
      CHECK_FALSE(std::isfinite(norm.total));
      CHECK(std::isfinite(norm.per_tensor[1]));
      amp::nonfinite_report report;
      static_cast<void>(l2norm(exec::vectorized{}, lane::in(x.list()).check(report)));
      CHECK(report.flag == 1);
      CHECK(report.first_tensor == 2);
    }
  }

  TEST_CASE("A3 no tensors, or only empty ones, have norm 0") {
    const auto none = l2norm(exec::vectorized{}, amp::tensor_list{});
    CHECK(none.total == 0.0);
    CHECK(none.finite);
    Tensors empty({0, 0}, {dtype::bf16});
    const auto zero = l2norm(exec::threads{2}, empty.list());
    CHECK(zero.total == 0.0);
    CHECK(zero.per_tensor == std::vector<double>{0.0, 0.0});
  }

  TEST_CASE("a broken list is refused") {
    std::vector<amp::tensor_view> list(1);
    list[0].size = 4;
    CHECK_THROWS_WITH_AS(static_cast<void>(l2norm(exec::vectorized{}, list)), doctest::Contains("tensor 0 has no data"),
                         amp::error);
  }
}
