#include <doctest/doctest.h>

#include <amp/nn/rms_norm.hpp>
#include <cmath>
#include <vector>

#include "nn/support.hpp"

using amp::dtype;
using test_nn::best;
using test_nn::Matrix;

namespace {

struct Case {
  Matrix x, gamma, dy, y, dx, dgamma;
  std::vector<float> rstd;

  Case(std::int64_t rows, std::int64_t columns, dtype type = dtype::fp32)
      : x(rows, columns, type),
        gamma(1, columns),
        dy(rows, columns),
        y(rows, columns, type),
        dx(rows, columns, type),
        dgamma(1, columns),
        rstd(static_cast<std::size_t>(rows)) {
    x.random(1, 2.f, 0.5f), gamma.random(2, 0.5f, 1.f), dy.random(4);
  }
  void run(const amp::exec::any& executor) {
    amp::nn::rms_norm(executor, y.view(), x.view(), gamma.vector(), 1e-5f, saved());
    amp::nn::rms_norm_backward(executor, {dx.view(), dgamma.vector(), {}}, dy.view(), x.view(), gamma.vector(),
                               saved());
  }
  amp::nn::norm_saved saved() { return {nullptr, rstd.data()}; }

  void check(double low, double wide) const {
    const auto n = x.columns();
    std::vector<double> sums(static_cast<std::size_t>(n));
    std::vector<double> scale, product;
    for (std::int64_t r = 0; r < x.rows(); ++r) {
      double square = 0, b = 0;
      for (std::int64_t c = 0; c < n; ++c) square += x.at(r, c) * x.at(r, c) / static_cast<double>(n);
      scale.push_back(1 / std::sqrt(square + 1e-5));
      for (std::int64_t c = 0; c < n; ++c) {
        b += dy.at(r, c) * gamma[c] * x.at(r, c) * scale.back() / static_cast<double>(n);
        sums[static_cast<std::size_t>(c)] += dy.at(r, c) * x.at(r, c) * scale.back();
      }
      product.push_back(b);
    }
    CHECK(test_nn::worst(y, [&](auto r, auto c) { return x.at(r, c) * scale[size_t(r)] * gamma[c]; }) < low);
    CHECK(test_nn::worst(dx, [&](auto r, auto c) {
            return scale[size_t(r)] * (dy.at(r, c) * gamma[c] - x.at(r, c) * scale[size_t(r)] * product[size_t(r)]);
          }) < low);
    CHECK(test_nn::worst(dgamma, [&](auto, auto c) { return sums[size_t(c)]; }) < wide);
  }
};

}  // namespace

TEST_SUITE("nn/rms_norm") {
  TEST_CASE("K4 outputs and gradients match double precision, in fp32 and low formats") {
    for (const std::int64_t columns : {1, 7, 64, 100, 2049, 4096}) {
      for (const dtype type : {dtype::fp32, dtype::fp16, dtype::bf16}) {
        CAPTURE(columns);
        CAPTURE(amp::name(type));
        Case one(6, columns, type);
        one.run(best());
        one.check(test_nn::rounding(type) + 3e-6, 4e-6);
      }
    }
  }

  TEST_CASE("K5 from the output alone the gradients are those from the input") {
    Case one(30, 150);
    one.run(best());
    amp::nn::rms_norm_backward_from_output(best(), {one.dx.view(), one.dgamma.vector(), {}}, one.dy.view(),
                                           one.y.view(), one.gamma.vector(), one.saved());
    one.check(1e-5, 1e-5);
  }

  TEST_CASE("a row of zeros gives zeros, and no rows zero gradients of gamma") {
    Case zeros(2, 40), none(0, 4);
    zeros.x.fill(0.f), none.dgamma.fill(3.f);
    zeros.run(best()), none.run(best());
    for (std::int64_t c = 0; c < 40; ++c) CHECK((zeros.y.at(1, c) == 0 && std::isfinite(zeros.dx.at(1, c))));
    for (std::int64_t c = 0; c < 4; ++c) CHECK(none.dgamma[c] == 0);
  }

  TEST_CASE("every executor and target gives the same bits") {
    Case first(130, 259, dtype::bf16);
    first.run(amp::exec::scalar{});
    for (const auto& executor : test_nn::executors()) {
      CAPTURE(executor.name);
      Case one(130, 259, dtype::bf16);
      one.run(executor.run);
      CHECK(one.y.bytes() == first.y.bytes());
      CHECK(one.dx.bytes() == first.dx.bytes());
      CHECK(one.dgamma.bytes() == first.dgamma.bytes());
    }
  }
}
