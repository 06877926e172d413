#include <doctest/doctest.h>

#include <amp/apply/reduce.hpp>
#include <amp/fn/l2norm.hpp>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "apply/tensors.hpp"
#include "simd/targets.hpp"

using amp::dtype;
using amp::simd::target;
using test_apply::Tensors;
namespace exec = amp::exec;
namespace lane = amp::lane;

namespace {

/// The definition, written down once more: 64 fp32 lanes per block of 65,536, a halving tree in double, blocks in
/// order.
double defined_sum(const std::vector<float>& x) {
  double total = 0;
  for (std::size_t begin = 0; begin < x.size(); begin += 65536) {
    float lanes[64] = {};
    for (std::size_t i = begin; i < std::min(x.size(), begin + 65536); ++i) lanes[(i - begin) % 64] += x[i] * x[i];
    double sums[64];
    for (int k = 0; k < 64; ++k) sums[k] = static_cast<double>(lanes[k]);
    for (int width = 32; width > 0; width /= 2) {
      for (int k = 0; k < width; ++k) sums[k] += sums[k + width];
    }
    total += sums[0];
  }
  return total;
}

}  // namespace

TEST_SUITE("apply/reduce") {
  TEST_CASE(
      "A9 X4 a sum of squares has the defined order: equal bits for every target, executor, thread count and chunk") {
    const auto sizes = test_apply::awkward_sizes();
    for (const auto& types :
         std::vector<std::vector<dtype>>{{dtype::fp32}, {dtype::bf16}, {dtype::fp16, dtype::fp32, dtype::bf16}}) {
      Tensors x(sizes, types);
      x.randomize(11, 1.f);
      std::vector<double> expected;
      double total = 0;
      for (std::size_t t = 0; t < sizes.size(); ++t) {
        std::vector<float> values;
        for (std::int64_t i = 0; i < sizes[t]; ++i) values.push_back(x.at(t, i));
        const double sum = defined_sum(values);
        total += sum;
        expected.push_back(std::sqrt(sum));
      }
      const auto check = [&](const auto& executor) {
        const amp::norm_result norm = amp::fn::l2norm(executor, x.list());
        CHECK(norm.total == std::sqrt(total));
        CHECK(norm.per_tensor == expected);
        CHECK(norm.finite);
      };
      check(exec::scalar{});
      for (const target t : test_simd::targets()) check(exec::vectorized{.target = t});
      check(exec::vectorized{.chunk = 100});
      check(exec::threads{3});
    }
  }

  TEST_CASE("A9 finite values whose fp32 squares overflow have a finite norm, computed in double") {
    std::vector<float> x(70000, 1.f);
    x[69999] = 3e38f;
    x[3] = 2e19f;
    const double expected = std::sqrt(static_cast<double>(3e38f) * 3e38f + static_cast<double>(2e19f) * 2e19f + 69998);
    const std::vector<amp::tensor_view> list{amp::as_view(x)};
    for (const target t : test_simd::targets()) {
      const auto norm = amp::fn::l2norm(exec::vectorized{.target = t}, list);
      CHECK(norm.finite);
      CHECK(norm.first_nonfinite == -1);
      CHECK(norm.total == doctest::Approx(expected).epsilon(1e-12));
    }
  }
}
