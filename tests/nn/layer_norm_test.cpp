#include <doctest/doctest.h>

#include <algorithm>
#include <amp/nn/layer_norm.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "nn/support.hpp"

using amp::dtype;
using test_nn::best;
using test_nn::Matrix;

namespace {

/// LayerNorm and its gradients in double, from the values as they are stored.
struct Reference {
  std::vector<std::vector<double>> y, dx;
  std::vector<double> dgamma, dbeta;

  Reference(const Matrix& x, const Matrix& gamma, const Matrix& beta, const Matrix& dy, double eps) {
    const auto n = x.columns();
    dgamma.resize(static_cast<std::size_t>(n)), dbeta.resize(static_cast<std::size_t>(n));
    for (std::int64_t r = 0; r < x.rows(); ++r) {
      double mean = 0, variance = 0, a = 0, b = 0;
      for (std::int64_t c = 0; c < n; ++c) mean += x.at(r, c) / static_cast<double>(n);
      for (std::int64_t c = 0; c < n; ++c) variance += std::pow(x.at(r, c) - mean, 2) / static_cast<double>(n);
      const double rstd = 1 / std::sqrt(variance + eps);
      std::vector<double> row, grad;
      const auto xhat = [&](std::int64_t c) { return (x.at(r, c) - mean) * rstd; };
      for (std::int64_t c = 0; c < n; ++c) {
        const double dxhat = dy.at(r, c) * gamma[c];
        a += dxhat / static_cast<double>(n), b += dxhat * xhat(c) / static_cast<double>(n);
      }
      for (std::int64_t c = 0; c < n; ++c) {
        row.push_back(xhat(c) * gamma[c] + beta[c]);
        grad.push_back(rstd * (dy.at(r, c) * gamma[c] - a - xhat(c) * b));
        dgamma[static_cast<std::size_t>(c)] += dy.at(r, c) * xhat(c);
        dbeta[static_cast<std::size_t>(c)] += dy.at(r, c);
      }
      y.push_back(row), dx.push_back(grad);
    }
  }
};

/// Everything that one forward and backward pass reads and writes.
struct Case {
  Matrix x, gamma, beta, dy, y, dx, dgamma, dbeta;
  std::vector<float> mean, rstd;

  Case(std::int64_t rows, std::int64_t columns, dtype input = dtype::fp32, dtype weights = dtype::fp32,
       dtype output = dtype::fp32, std::int64_t gap = 0, std::int64_t shift = 0)
      : x(rows, columns, input, gap, shift),
        gamma(1, columns, weights, 0, shift),
        beta(1, columns, weights, 0, shift),
        dy(rows, columns, output, gap, shift),
        y(rows, columns, output, gap, shift),
        dx(rows, columns, input, gap, shift),
        dgamma(1, columns, weights, 0, shift),
        dbeta(1, columns, weights, 0, shift),
        mean(static_cast<std::size_t>(rows)),
        rstd(static_cast<std::size_t>(rows)) {
    x.random(1, 2.f, 0.5f), gamma.random(2, 0.5f, 1.f), beta.random(3), dy.random(4);
  }
  void run(const amp::exec::any& executor) {
    amp::nn::layer_norm(executor, y.view(), x.view(), gamma.vector(), beta.vector(), 1e-5f, saved());
    amp::nn::layer_norm_backward(executor, {dx.view(), dgamma.vector(), dbeta.vector()}, dy.view(), x.view(),
                                 gamma.vector(), saved());
  }
  amp::nn::norm_saved saved() { return {mean.data(), rstd.data()}; }
  [[nodiscard]] Reference reference() const { return {x, gamma, beta, dy, 1e-5}; }

  void check(double input_tolerance, double output_tolerance, double weight_tolerance) {
    const Reference want = reference();
    const auto row = [](const auto& rows) {
      return [&rows](std::int64_t r, std::int64_t c) {
        return rows[static_cast<std::size_t>(r)][static_cast<std::size_t>(c)];
      };
    };
    const auto column = [](const auto& values) {
      return [&values](std::int64_t, std::int64_t c) { return values[static_cast<std::size_t>(c)]; };
    };
    CHECK(test_nn::worst(y, row(want.y)) < output_tolerance);
    CHECK(test_nn::worst(dx, row(want.dx)) < input_tolerance);
    CHECK(test_nn::worst(dgamma, column(want.dgamma)) < weight_tolerance);
    CHECK(test_nn::worst(dbeta, column(want.dbeta)) < weight_tolerance);
    CHECK((y.gaps_intact() && dx.gaps_intact() && dgamma.gaps_intact() && dbeta.gaps_intact()));
  }
};

}  // namespace

TEST_SUITE("nn/layer_norm") {
  TEST_CASE("K1 K3 outputs and gradients match double precision for row lengths from 1 to 65536") {
    for (const std::int64_t columns : {1, 2, 3, 15, 16, 17, 63, 64, 65, 128, 768, 2047, 2048, 2049, 5000, 65536}) {
      CAPTURE(columns);
      Case one(columns > 5000 ? 2 : 5, columns);
      one.run(best());
      one.check(2e-6, 2e-6, 4e-6);
    }
  }

  TEST_CASE("K2 B20 every mix of input, weight and output formats computes in fp32 and rounds once") {
    for (const dtype input : {dtype::fp32, dtype::fp16, dtype::bf16}) {
      for (const dtype weights : {dtype::fp32, dtype::fp16, dtype::bf16}) {
        for (const dtype output : {dtype::fp32, dtype::fp16, dtype::bf16}) {
          CAPTURE(amp::name(input));
          CAPTURE(amp::name(weights));
          CAPTURE(amp::name(output));
          Case one(7, 83, input, weights, output);
          one.run(best());
          const auto tolerance = [](dtype t) { return test_nn::rounding(t) + 3e-6; };
          one.check(tolerance(input), tolerance(output), tolerance(weights));
        }
      }
    }
  }

  TEST_CASE("every executor, target and thread count gives the same bits, rows apart and at odd starts too") {
    for (const dtype type : {dtype::fp32, dtype::bf16}) {
      Case first(301, 333, type, dtype::fp32, type, 3, 1);
      bool started = false;
      for (const auto& executor : test_nn::executors()) {
        CAPTURE(executor.name);
        Case one(301, 333, type, dtype::fp32, type, 3, 1);
        one.run(executor.run);
        if (!started) first = one, started = true;
        CHECK(one.y.bytes() == first.y.bytes());
        CHECK(one.dx.bytes() == first.dx.bytes());
        CHECK(one.dgamma.bytes() == first.dgamma.bytes());
        CHECK(one.dbeta.bytes() == first.dbeta.bytes());
        CHECK(one.mean == first.mean);
        CHECK(one.rstd == first.rstd);
      }
      first.check(type == dtype::fp32 ? 3e-6 : 0.003, type == dtype::fp32 ? 3e-6 : 0.003, 5e-6);
    }
  }

  TEST_CASE("B38 without gamma and beta, forward and backward, and with only some gradients wanted") {
    Case one(9, 100);
    one.gamma.fill(1.f), one.beta.fill(0.f);
    const Reference want = one.reference();
    amp::nn::layer_norm(best(), one.y.view(), one.x.view(), {}, {}, 1e-5f, one.saved());
    amp::nn::layer_norm_backward(best(), {.dx = one.dx.view()}, one.dy.view(), one.x.view(), {}, one.saved());
    CHECK(test_nn::worst(one.y, [&](auto r, auto c) { return want.y[size_t(r)][size_t(c)]; }) < 2e-6);
    CHECK(test_nn::worst(one.dx, [&](auto r, auto c) { return want.dx[size_t(r)][size_t(c)]; }) < 2e-6);
    amp::nn::layer_norm_backward(best(), {.dbeta = one.dbeta.vector()}, one.dy.view(), one.x.view(), {}, one.saved());
    CHECK(test_nn::worst(one.dbeta, [&](auto, auto c) { return want.dbeta[size_t(c)]; }) < 4e-6);
  }

  TEST_CASE("K5 from the output and rstd alone the gradients are those from the input, where gamma is not tiny") {
    Case one(40, 200);
    one.run(best());
    Case two = one;
    amp::nn::layer_norm_backward_from_output(best(), {two.dx.view(), two.dgamma.vector(), two.dbeta.vector()},
                                             two.dy.view(), two.y.view(), two.gamma.vector(), two.beta.vector(),
                                             {nullptr, two.rstd.data()});
    two.check(2e-5, 2e-6, 2e-5);
  }

  TEST_CASE("K5 gammas below the clamp are raised to it with their sign, 0 to the positive one") {
    const float clamp = 0.25f;
    Case one(2, 4);
    const float gammas[] = {0.f, -0.125f, 0.125f, 1.f};
    for (std::int64_t c = 0; c < 4; ++c) one.gamma.set(0, c, gammas[c]);
    one.run(best());
    amp::nn::layer_norm_backward_from_output(best(), {.dgamma = one.dgamma.vector()}, one.dy.view(), one.y.view(),
                                             one.gamma.vector(), one.beta.vector(), one.saved(), clamp);
    for (std::int64_t c = 0; c < 4; ++c) {
      const double g = static_cast<double>(gammas[c]);
      const double raised = std::abs(g) >= 0.25 ? g : (g < 0 ? -0.25 : 0.25);
      double want = 0;
      for (std::int64_t r = 0; r < 2; ++r) want += one.dy.at(r, c) * (one.y.at(r, c) - one.beta[c]) / raised;
      CHECK(one.dgamma[c] == doctest::Approx(want).epsilon(1e-5));
    }
  }

  TEST_CASE("K6 no rows give zero weight gradients, more than 65536 rows their whole sum") {
    Case none(0, 12);
    none.dgamma.fill(7.f), none.dbeta.fill(7.f);
    none.run(best());
    for (std::int64_t c = 0; c < 12; ++c) CHECK((none.dgamma[c] == 0 && none.dbeta[c] == 0));
    Case many(70001, 3);
    many.run(best());
    many.check(1e-5, 3e-6, 2e-5);  // of 70,001 rows of three, some have a large rstd
  }

  TEST_CASE("K6 a constant row and a row of length 1 have xhat 0 and a finite gradient") {
    for (const float value : {0.f, 1e4f, -3.3e-3f}) {
      for (const std::int64_t columns : {1, 50, 2500}) {
        Case one(2, columns);
        one.x.fill(value);
        one.run(best());
        for (std::int64_t c = 0; c < columns; ++c) {
          CHECK(one.y.at(1, c) == one.beta[c]);
          CHECK(std::isfinite(one.dx.at(1, c)));
          CHECK(one.dgamma[c] == 0);
        }
        CHECK(one.mean[1] == value);
      }
    }
  }

  TEST_CASE("K6 a large offset with small noise keeps its digits") {
    Case one(20, 700);
    one.x.random(8, 0.02f, 1e4f);
    one.run(best());
    one.check(3e-3, 3e-5, 3e-4);  // dx holds rstd, about 87: 3e-3 is 3e-5 of it
  }

  TEST_CASE("K6 infinity and NaN in a row stay in that row, and reach the weight gradients") {
    const float inf = std::numeric_limits<float>::infinity();
    for (const float bad : {inf, -inf, std::numeric_limits<float>::quiet_NaN()}) {
      for (const std::int64_t column : {0, 31, 99}) {
        Case one(20, 100), clean(20, 100);
        one.x.set(7, column, bad);
        one.run(best()), clean.run(best());
        for (std::int64_t r = 0; r < 20; ++r) {
          for (std::int64_t c = 0; c < 100; ++c) {
            if (r == 7) {
              CHECK_FALSE(std::isfinite(one.dx.at(r, c)));
            } else {
              CHECK((one.y.at(r, c) == clean.y.at(r, c) && one.dx.at(r, c) == clean.dx.at(r, c)));
            }
          }
        }
        CHECK_FALSE(std::isfinite(one.dgamma[column]));
      }
    }
  }

  TEST_CASE("the gradient of x may take the place of the gradient of y, and y that of x") {
    Case one(11, 70), two(11, 70);
    one.run(best());
    amp::nn::layer_norm_backward(best(), {.dx = two.dy.view()}, two.dy.view(), two.x.view(), two.gamma.vector(),
                                 one.saved());
    CHECK(two.dy.bytes() == one.dx.bytes());
    amp::nn::layer_norm(best(), two.x.view(), two.x.view(), two.gamma.vector(), two.beta.vector());
    CHECK(two.x.bytes() == one.y.bytes());
  }

  TEST_CASE("shapes that do not fit are refused by name") {
    Case one(3, 10);
    Matrix small(1, 9), short_rows(3, 9), empty(3, 0);
    const auto refuses = [](const char* text, const auto& call) {
      CHECK_THROWS_WITH_AS(call(), doctest::Contains(text), amp::error);
    };
    refuses("gamma has 9 elements, but 10",
            [&] { amp::nn::layer_norm(best(), one.y.view(), one.x.view(), small.vector()); });
    refuses("y is 3 x 9, but 3 x 10", [&] { amp::nn::layer_norm(best(), short_rows.view(), one.x.view()); });
    refuses("at least one column", [&] { amp::nn::layer_norm(best(), empty.view(), empty.view()); });
    refuses("must not be negative", [&] { amp::nn::layer_norm(best(), one.y.view(), one.x.view(), {}, {}, -1.f); });
    refuses("needs rstd", [&] { amp::nn::layer_norm_backward(best(), {}, one.dy.view(), one.x.view(), {}, {}); });
    auto overlapping = one.y.view();
    overlapping.stride = 5;
    refuses("rows must not overlap", [&] { amp::nn::layer_norm(best(), overlapping, one.x.view()); });
    auto constant = one.y.view();
    constant.readonly = true;
    refuses("read-only", [&] { amp::nn::layer_norm(best(), constant, one.x.view()); });
  }
}
