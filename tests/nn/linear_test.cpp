#include <doctest/doctest.h>

#include <amp/nn/linear.hpp>
#include <cmath>
#include <numbers>
#include <vector>

#include "nn/support.hpp"

using amp::dtype;
using amp::nn::Workspace;
using test_nn::best;
using test_nn::Matrix;

namespace {

double gelu(double x) { return x * std::erfc(-x / std::numbers::sqrt2) / 2; }
double gelu_slope(double x) {
  return std::erfc(-x / std::numbers::sqrt2) / 2 + x * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
}
double pre_activation(const Matrix& x, const Matrix& w, const Matrix& b, std::int64_t r, std::int64_t c) {
  double sum = b[c];
  for (std::int64_t k = 0; k < x.columns(); ++k) sum += x.at(r, k) * w.at(c, k);
  return sum;
}

struct Case {
  Matrix x, w, b, dy, y, pre, dpre, dx, dw, db;

  explicit Case(dtype type = dtype::fp32, std::int64_t rows = 37, std::int64_t in = 50, std::int64_t out = 41)
      : x(rows, in, type, 1, 1),
        w(out, in, type, 2),
        b(1, out, type),
        dy(rows, out, type),
        y(rows, out, type, 3),
        pre(rows, out, type),
        dpre(rows, out, type),
        dx(rows, in, type),
        dw(out, in, dtype::fp32),
        db(1, out, dtype::fp32) {
    x.random(1), w.random(2, 0.3f), b.random(3), dy.random(4), dw.random(5);
  }
  amp::nn::linear_gradients gradients(bool accumulate = false) {
    return {dx.view(), dw.view(), db.vector(), accumulate};
  }
  /// Against double precision: dx, dw, db from the gradient before the activation, as it was stored.
  void check_gradients(const Matrix& before, double tolerance, double wide) const {
    CHECK(test_nn::worst(dx, [&](auto r, auto k) {
            double sum = 0;
            for (std::int64_t c = 0; c < w.rows(); ++c) sum += before.at(r, c) * w.at(c, k);
            return sum;
          }) < tolerance);
    CHECK(test_nn::worst(dw, [&](auto c, auto k) {
            double sum = 0;
            for (std::int64_t r = 0; r < x.rows(); ++r) sum += before.at(r, c) * x.at(r, k);
            return sum;
          }) < wide);
    CHECK(test_nn::worst(db, [&](auto, auto c) {
            double sum = 0;
            for (std::int64_t r = 0; r < x.rows(); ++r) sum += before.at(r, c);
            return sum;
          }) < wide);
  }
};

}  // namespace

TEST_SUITE("nn/linear") {
  TEST_CASE("G1 linear with bias, forward and backward, matches double precision in fp32, fp16 and bf16") {
    for (const dtype type : {dtype::fp32, dtype::fp16, dtype::bf16}) {
      CAPTURE(amp::name(type));
      Case one(type);
      const double tolerance = test_nn::rounding(type) + 3e-6;
      amp::nn::linear(best(), one.y.view(), one.x.view(), one.w.view(), one.b.vector());
      CHECK(test_nn::worst(one.y, [&](auto r, auto c) { return pre_activation(one.x, one.w, one.b, r, c); }) <
            tolerance);
      amp::nn::linear_backward(best(), one.gradients(), one.dy.view(), one.x.view(), one.w.view());
      one.check_gradients(one.dy, tolerance, 3e-6);
      CHECK((one.y.gaps_intact() && one.dx.gaps_intact()));
    }
  }

  TEST_CASE("G1 with GELU the pre-activation is kept, and the slope is taken there") {
    for (const dtype type : {dtype::fp32, dtype::bf16}) {
      Case one(type);
      const double tolerance = test_nn::rounding(type) + 3e-6;
      amp::nn::linear(best(), one.y.view(), one.x.view(), one.w.view(), one.b.vector(), amp::nn::gelu_erf{},
                      one.pre.view());
      CHECK(test_nn::worst(one.pre, [&](auto r, auto c) { return pre_activation(one.x, one.w, one.b, r, c); }) <
            tolerance);
      CHECK(test_nn::worst(one.y, [&](auto r, auto c) { return gelu(pre_activation(one.x, one.w, one.b, r, c)); }) <
            tolerance);
      amp::nn::linear_backward(best(), one.gradients(), one.dpre.view(), one.dy.view(), one.pre.view(), one.x.view(),
                               one.w.view(), amp::nn::gelu_erf{});
      CHECK(test_nn::worst(one.dpre, [&](auto r, auto c) { return one.dy.at(r, c) * gelu_slope(one.pre.at(r, c)); }) <
            tolerance);
      one.check_gradients(one.dpre, tolerance, 3e-6);
    }
  }

  TEST_CASE("weight gradients add to what is there, and the gradient before the activation may replace dy") {
    Case one, two;
    const Matrix start = one.dw;
    amp::nn::linear(best(), one.y.view(), one.x.view(), one.w.view(), {}, amp::nn::relu{}, one.pre.view());
    amp::nn::linear_backward(best(), one.gradients(), one.dpre.view(), one.dy.view(), one.pre.view(), one.x.view(),
                             one.w.view(), amp::nn::relu{});
    amp::nn::linear_backward(best(), two.gradients(true), two.dy.view(), two.dy.view(), one.pre.view(), two.x.view(),
                             two.w.view(), amp::nn::relu{});
    CHECK(test_nn::worst(two.dw, [&](auto r, auto c) { return start.at(r, c) + one.dw.at(r, c); }) < 1e-6);
    CHECK(two.db.bytes() == one.db.bytes());
    CHECK(two.dx.bytes() == one.dx.bytes());
  }

  TEST_CASE("G4 no rows give zero weight gradients, no inputs give bias rows") {
    Case none(dtype::fp32, 0);
    none.db.fill(3.f);
    amp::nn::linear(best(), none.y.view(), none.x.view(), none.w.view(), none.b.vector());
    amp::nn::linear_backward(best(), none.gradients(), none.dy.view(), none.x.view(), none.w.view());
    for (std::int64_t c = 0; c < 41; ++c) CHECK((none.db[c] == 0 && none.dw.at(c, 7) == 0));
    Case narrow(dtype::fp32, 4, 0);
    amp::nn::linear(best(), narrow.y.view(), narrow.x.view(), narrow.w.view(), narrow.b.vector());
    for (std::int64_t c = 0; c < 41; ++c) CHECK(narrow.y.at(3, c) == narrow.b[c]);
    amp::nn::linear_backward(best(), narrow.gradients(), narrow.dy.view(), narrow.x.view(), narrow.w.view());
  }

  TEST_CASE("gradients have the same bits on every executor and thread count") {
    Case first(dtype::bf16, 400);
    amp::nn::linear_backward(amp::exec::any(amp::exec::scalar{}), first.gradients(), first.dpre.view(), first.dy.view(),
                             first.y.random(9).view(), first.x.view(), first.w.view(), amp::nn::gelu_tanh{});
    for (const auto& executor : test_nn::executors()) {
      Case one(dtype::bf16, 400);
      amp::nn::linear_backward(executor.run, one.gradients(), one.dpre.view(), one.dy.view(), one.y.random(9).view(),
                               one.x.view(), one.w.view(), amp::nn::gelu_tanh{});
      CAPTURE(executor.name);
      CHECK((one.dx.bytes() == first.dx.bytes() && one.dw.bytes() == first.dw.bytes()));
      CHECK((one.db.bytes() == first.db.bytes() && one.dpre.bytes() == first.dpre.bytes()));
    }
  }

  TEST_CASE("a bias of the wrong length and a missing pre-activation are refused") {
    Case one;
    Matrix longer(1, 42);
    CHECK_THROWS_WITH_AS(amp::nn::linear(best(), one.y.view(), one.x.view(), one.w.view(), longer.vector()),
                         doctest::Contains("the bias has 42 elements, but 41"), amp::error);
    CHECK_THROWS_WITH_AS(amp::nn::linear_backward(best(), one.gradients(), one.dpre.view(), one.dy.view(), {},
                                                  one.x.view(), one.w.view(), amp::nn::relu{}),
                         doctest::Contains("needs the pre-activation"), amp::error);
  }
}
