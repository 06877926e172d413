#include <doctest/doctest.h>

#include <algorithm>
#include <amp/nn/softmax.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "nn/support.hpp"

using amp::dtype;
using test_nn::best;
using test_nn::Matrix;

namespace {
struct Sums {
  double top, sum;
};
Sums sums_of(const Matrix& x, std::int64_t r) {
  Sums s{-1e300, 0};
  for (std::int64_t c = 0; c < x.columns(); ++c) s.top = std::max(s.top, x.at(r, c));
  for (std::int64_t c = 0; c < x.columns(); ++c) s.sum += std::exp(x.at(r, c) - s.top);
  return s;
}
template <bool Log>
void check(std::int64_t columns, dtype type, float scale) {
  Matrix x(4, columns, type, 1), y(4, columns, type), dy(4, columns, type), dx(4, columns, type);
  x.random(1, scale), dy.random(2);
  if constexpr (Log) {
    amp::nn::log_softmax(best(), y.view(), x.view());
    amp::nn::log_softmax_backward(best(), dx.view(), dy.view(), y.view());
  } else {
    amp::nn::softmax(best(), y.view(), x.view());
    amp::nn::softmax_backward(best(), dx.view(), dy.view(), y.view());
  }
  std::vector<Sums> all;
  std::vector<double> total;
  for (std::int64_t r = 0; r < 4; ++r) {
    all.push_back(sums_of(x, r));
    total.push_back(0);
    for (std::int64_t c = 0; c < columns; ++c) total.back() += dy.at(r, c) * (Log ? 1 : y.at(r, c));
  }
  const double tolerance = test_nn::rounding(type) + 5e-6;
  CHECK(test_nn::worst(y, [&](auto r, auto c) {
          const Sums& s = all[size_t(r)];
          return Log ? x.at(r, c) - s.top - std::log(s.sum) : std::exp(x.at(r, c) - s.top) / s.sum;
        }) < tolerance);
  CHECK(test_nn::worst(dx, [&](auto r, auto c) {
          return Log ? dy.at(r, c) - std::exp(y.at(r, c)) * total[size_t(r)]
                     : y.at(r, c) * (dy.at(r, c) - total[size_t(r)]);
        }) < tolerance);
}
}  // namespace

TEST_SUITE("nn/softmax") {
  TEST_CASE("softmax, its logarithm and their gradients match double precision in every format and length") {
    for (const std::int64_t columns : {1, 3, 16, 65, 1000, 2049, 5001}) {
      for (const dtype type : {dtype::fp32, dtype::fp16, dtype::bf16}) {
        CAPTURE(columns);
        CAPTURE(amp::name(type));
        check<false>(columns, type, 3.f);
        check<true>(columns, type, 3.f);
      }
    }
    check<false>(100, dtype::fp32, 1e4f);
    check<true>(100, dtype::fp32, 80.f);
  }

  TEST_CASE("a fully masked entry is 0, and NaN or +infinity spoil their own row alone") {
    const float inf = std::numeric_limits<float>::infinity();
    Matrix x(4, 70), y(4, 70);
    x.random(1);
    x.set(0, 69, -inf);
    x.set(1, 3, inf);
    x.set(2, 40, std::numeric_limits<float>::quiet_NaN());
    amp::nn::softmax(best(), y.view(), x.view());
    CHECK(y.at(0, 69) == 0);
    CHECK(std::isfinite(y.at(0, 0)));
    CHECK(std::isnan(y.at(1, 3)));
    CHECK(std::isnan(y.at(2, 0)));
    double sum = 0;
    for (std::int64_t c = 0; c < 70; ++c) sum += y.at(3, c);
    CHECK(sum == doctest::Approx(1.0).epsilon(1e-6));
  }

  TEST_CASE("every executor and target gives the same bits, in place too") {
    std::vector<unsigned char> first;
    for (const auto& executor : test_nn::executors()) {
      Matrix x(90, 1000, dtype::bf16, 1, 1), dy(90, 1000, dtype::bf16);
      x.random(1, 4.f), dy.random(2);
      amp::nn::softmax(executor.run, x.view(), x.view());
      amp::nn::softmax_backward(executor.run, dy.view(), dy.view(), x.view());
      std::vector<unsigned char> all = x.bytes();
      all.insert(all.end(), dy.bytes().begin(), dy.bytes().end());
      if (first.empty()) first = all;
      CAPTURE(executor.name);
      CHECK(all == first);
    }
  }

  TEST_CASE("no rows and no columns are empty results") {
    Matrix rows(0, 5), columns(5, 0);
    amp::nn::softmax(best(), rows.view(), rows.view());
    amp::nn::log_softmax(best(), columns.view(), columns.view());
    amp::nn::softmax_backward(best(), columns.view(), columns.view(), columns.view());
    CHECK((rows.gaps_intact() && columns.gaps_intact()));
  }
}
