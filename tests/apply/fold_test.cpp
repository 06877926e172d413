#include <doctest/doctest.h>

#include <amp/apply/fold.hpp>
#include <amp/optim/executor.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "apply/tensors.hpp"
#include "simd/targets.hpp"

using amp::dtype;
using test_apply::Tensors;
namespace exec = amp::exec;
namespace lane = amp::lane;

namespace {

/// x + 1 and x * y: the first is not 0 beyond a tensor's end, where x is read as 0.
struct PlusOneAndProduct {
  template <class V>
  AMP_INLINE void operator()(V (&value)[2], const V& x, const V& y) const {
    value[0] = x + V(1.f);
    value[1] = x * y;
  }
};
/// x times a factor of its tensor.
struct ByTensor {
  const float* factors;
  float factor = 1.f;
  ByTensor at(const amp::apply::piece& p) const { return {factors, factors[p.tensor]}; }
  template <class V>
  AMP_INLINE void operator()(V (&value)[1], const V& x) const {
    value[0] = factor * x;
  }
};
const auto sizes = test_apply::awkward_sizes();

auto squares(const exec::any& executor, const Tensors& x, const Tensors& y) {
  return amp::apply::fold<2>(executor, amp::apply::sum_of_squares{}, PlusOneAndProduct{}, lane::in(x.list()),
                             lane::in(y.list(), 0.5f));
}

}  // namespace

TEST_SUITE("apply/fold") {
  TEST_CASE("A9 X4 folds over several lanes have equal bits for every target, executor and thread count") {
    Tensors x(sizes, {dtype::fp32, dtype::bf16}), y(sizes, {dtype::fp16, dtype::fp32, dtype::e4m3});
    x.randomize(1, 1.f), y.randomize(2, 1.f);
    const auto expected = squares(exec::scalar{}, x, y);
    const auto check = [&](const exec::any& executor) {
      const auto found = squares(executor, x, y);
      for (std::size_t k = 0; k < 2; ++k) {
        CHECK(found[k].total == expected[k].total);
        CHECK(found[k].per_tensor == expected[k].per_tensor);
      }
    };
    for (const auto t : test_simd::targets()) check(exec::vectorized{.target = t});
    check(exec::vectorized{.chunk = 100});
    check(exec::threads{3});
    for (std::size_t t = 0; t < sizes.size(); ++t) {
      double first = 0, second = 0;
      for (std::int64_t i = 0; i < sizes[t]; ++i) {
        first += std::pow(static_cast<double>(x.at(t, i)) + 1., 2);
        second += std::pow(static_cast<double>(x.at(t, i)) * static_cast<double>(y.at(t, i)) / 2., 2);
      }
      CHECK(expected[0].per_tensor[t] == doctest::Approx(first).epsilon(1e-5));
      CHECK(expected[1].per_tensor[t] == doctest::Approx(second).epsilon(1e-5));
    }
  }
  TEST_CASE("A9 squares that overflow fp32 are summed in double, what is not finite stays so") {
    Tensors x({70000, 3}, {dtype::fp32}), y({70000, 3}, {dtype::fp32});
    x.fill(3.f), y.fill(0.f);
    x.set(0, 69999, 3e38f);
    const auto found = squares(exec::vectorized{}, x, y);
    CHECK(found[0].per_tensor[0] == doctest::Approx(std::pow(static_cast<double>(3e38f), 2)));
    CHECK(found[0].per_tensor[1] == 48.);
    x.set(1, 1, std::numeric_limits<float>::quiet_NaN());
    CHECK(std::isnan(squares(exec::vectorized{}, x, y)[0].per_tensor[1]));
    x.set(1, 1, std::numeric_limits<float>::infinity());
    CHECK(std::isinf(squares(exec::vectorized{}, x, y)[0].total));
  }
  TEST_CASE("A9 an op may differ from tensor to tensor") {
    const float factors[] = {1.f, 2.f, 3.f};
    Tensors x({5, 0, 66000}, {dtype::bf16});
    x.fill(1.f);
    const auto found = amp::apply::fold<1>(exec::threads{2}, amp::apply::sum{}, ByTensor{factors}, lane::in(x.list()));
    CHECK(found[0].per_tensor == std::vector<double>{5., 0., 198000.});
    CHECK(found[0].total == 198005.);
  }
  TEST_CASE("A3 nothing is folded of empty lists") {
    const auto found = squares(exec::scalar{}, Tensors({}, {dtype::fp32}), Tensors({}, {dtype::fp32}));
    CHECK(found[0].total == 0.);
    CHECK(found[1].per_tensor.empty());
  }
}
