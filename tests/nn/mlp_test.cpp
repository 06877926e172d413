#include <doctest/doctest.h>

#include <amp/nn/mlp.hpp>
#include <cmath>
#include <numbers>
#include <vector>

#include "nn/support.hpp"

using amp::dtype;
using test_nn::best;
using test_nn::Matrix;

namespace {

using Rows = std::vector<std::vector<double>>;

struct None {
  static double f(double x) { return x; }
  static double slope(double) { return 1; }
};
struct Relu {
  static double f(double x) { return x > 0 ? x : 0; }
  static double slope(double x) { return x > 0 ? 1 : 0; }
};
struct Sigmoid {
  static double f(double x) { return 1 / (1 + std::exp(-x)); }
  static double slope(double x) { return f(x) * (1 - f(x)); }
};
struct Gelu {
  static double f(double x) { return x * std::erfc(-x / std::numbers::sqrt2) / 2; }
  static double slope(double x) {
    return std::erfc(-x / std::numbers::sqrt2) / 2 + x * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
  }
};

Rows rows_of(const Matrix& m) {
  Rows out(static_cast<std::size_t>(m.rows()), std::vector<double>(static_cast<std::size_t>(m.columns())));
  for (std::int64_t r = 0; r < m.rows(); ++r) {
    for (std::int64_t c = 0; c < m.columns(); ++c) out[size_t(r)][size_t(c)] = m.at(r, c);
  }
  return out;
}
/// x w^T + b
Rows affine(const Rows& x, const Matrix& w, const Matrix& b) {
  Rows y(x.size(), std::vector<double>(static_cast<std::size_t>(w.rows())));
  for (std::size_t r = 0; r < x.size(); ++r) {
    for (std::int64_t c = 0; c < w.rows(); ++c) {
      double sum = b[c];
      for (std::int64_t k = 0; k < w.columns(); ++k) sum += x[r][size_t(k)] * w.at(c, k);
      y[r][size_t(c)] = sum;
    }
  }
  return y;
}
template <class F>
Rows map(Rows x, const F& f) {
  for (auto& row : x) {
    for (double& v : row) v = f(v);
  }
  return x;
}
/// Gradients of one layer in double: `g` before the activation.
void check_layer(const Rows& g, const Rows& input, const Matrix& dw, const Matrix& db, double tolerance) {
  CHECK(test_nn::worst(dw, [&](auto c, auto k) {
          double sum = 0;
          for (std::size_t r = 0; r < g.size(); ++r) sum += g[r][size_t(c)] * input[r][size_t(k)];
          return sum;
        }) < tolerance);
  CHECK(test_nn::worst(db, [&](auto, auto c) {
          double sum = 0;
          for (const auto& row : g) sum += row[size_t(c)];
          return sum;
        }) < tolerance);
}
Rows times(const Rows& g, const Matrix& w) {
  Rows out(g.size(), std::vector<double>(static_cast<std::size_t>(w.columns())));
  for (std::size_t r = 0; r < g.size(); ++r) {
    for (std::int64_t k = 0; k < w.columns(); ++k) {
      for (std::int64_t c = 0; c < w.rows(); ++c) out[r][size_t(k)] += g[r][size_t(c)] * w.at(c, k);
    }
  }
  return out;
}
Rows product(Rows a, const Rows& b) {
  for (std::size_t r = 0; r < a.size(); ++r) {
    for (std::size_t c = 0; c < a[r].size(); ++c) a[r][c] *= b[r][c];
  }
  return a;
}

struct Net {
  std::vector<std::int64_t> widths;
  std::vector<Matrix> w, b, dw, db, hidden;
  Matrix x, y, dy, dx;

  Net(std::vector<std::int64_t> sizes, dtype type, std::int64_t rows = 19)
      : widths(std::move(sizes)),
        x(rows, widths.front(), type),
        y(rows, widths.back(), type),
        dy(rows, widths.back(), type),
        dx(rows, widths.front(), type) {
    for (std::size_t k = 0; k + 1 < widths.size(); ++k) {
      w.emplace_back(widths[k + 1], widths[k], type).random(k + 1, 0.4f);
      b.emplace_back(1, widths[k + 1], type).random(k + 11);
      dw.emplace_back(widths[k + 1], widths[k]);
      db.emplace_back(1, widths[k + 1]);
      if (k + 2 < widths.size()) hidden.emplace_back(rows, widths[k + 1], type);
    }
    x.random(21), dy.random(22);
  }
  std::vector<amp::nn::linear_layer> layers(bool with_bias = true) {
    std::vector<amp::nn::linear_layer> all;
    for (std::size_t k = 0; k < w.size(); ++k)
      all.push_back({w[k].view(), with_bias ? b[k].vector() : amp::tensor_view{}});
    return all;
  }
  std::vector<amp::nn::linear_gradients> gradients() {
    std::vector<amp::nn::linear_gradients> all;
    for (std::size_t k = 0; k < w.size(); ++k) all.push_back({dx.view(), dw[k].view(), db[k].vector(), false});
    return all;
  }
  std::vector<amp::matrix_view> kept() {
    std::vector<amp::matrix_view> all;
    for (auto& h : hidden) all.push_back(h.view());
    return all;
  }

  template <class F, class Reference>
  void check(double tolerance) {
    const auto all = layers();
    amp::nn::mlp(best(), y.view(), x.view(), all, kept(), F{});
    std::vector<Rows> pre, post{rows_of(x)};
    for (std::size_t k = 0; k < w.size(); ++k) {
      pre.push_back(affine(post.back(), w[k], b[k]));
      post.push_back(map(pre.back(), Reference::f));
    }
    CHECK(test_nn::worst(y, [&](auto r, auto c) { return post.back()[size_t(r)][size_t(c)]; }) < tolerance);
    Matrix alone(y.rows(), y.columns(), y.view().type);
    amp::nn::mlp(best(), alone.view(), x.view(), all, {}, F{});
    CHECK(alone.bytes() == y.bytes());
    amp::nn::mlp_backward(best(), gradients(), dy.view(), y.view(), x.view(), all, kept(), F{});
    Rows g = rows_of(dy);
    for (std::size_t k = w.size(); k-- > 0;) {
      g = product(g, map(pre[k], Reference::slope));
      check_layer(g, post[k], dw[k], db[k], tolerance);
      g = times(g, w[k]);
    }
    CHECK(test_nn::worst(dx, [&](auto r, auto c) { return g[size_t(r)][size_t(c)]; }) < tolerance);
  }
};

}  // namespace

TEST_SUITE("nn/mlp") {
  TEST_CASE("G3 perceptrons of any depth match double precision, with an activation after every layer") {
    for (const std::vector<std::int64_t>& widths :
         {std::vector<std::int64_t>{13, 7}, {13, 40, 7}, {5, 33, 1, 20, 3}, {4, 4, 4, 4, 4, 4}}) {
      CAPTURE(widths.size());
      Net(widths, dtype::fp32).check<amp::nn::no_activation, None>(1e-5);
      Net(widths, dtype::fp32).check<amp::nn::relu, Relu>(1e-5);
      Net(widths, dtype::fp32).check<amp::nn::sigmoid, Sigmoid>(1e-5);
      Net(widths, dtype::bf16).check<amp::nn::sigmoid, Sigmoid>(0.05);
    }
  }

  TEST_CASE("G3 the bias is optional, and what is kept must fit the layers") {
    Net net({6, 9, 4}, dtype::fp32), zero({6, 9, 4}, dtype::fp32);
    for (auto& b : zero.b) b.fill(0.f);
    amp::nn::mlp(best(), net.y.view(), net.x.view(), net.layers(false), net.kept(), amp::nn::relu{});
    amp::nn::mlp(best(), zero.y.view(), zero.x.view(), zero.layers(), zero.kept(), amp::nn::relu{});
    CHECK(net.y.bytes() == zero.y.bytes());
    const std::vector<amp::matrix_view> two(2, net.hidden[0].view());
    CHECK_THROWS_WITH_AS(amp::nn::mlp(best(), net.y.view(), net.x.view(), net.layers(), two, amp::nn::relu{}),
                         doctest::Contains("hidden has 2 matrices for 2 layers"), amp::error);
    CHECK_THROWS_WITH_AS(amp::nn::mlp(best(), net.y.view(), net.x.view(), {}, {}, amp::nn::relu{}),
                         doctest::Contains("without layers"), amp::error);
  }

  TEST_CASE("G2 linear-GELU-linear matches double precision, forward and backward, with the pre-activation kept") {
    Net net({20, 50, 12}, dtype::fp32);
    Matrix pre(19, 50), dpre(19, 50);
    const auto layers = net.layers();
    const auto grads = net.gradients();
    amp::nn::linear_gelu_linear(best(), net.y.view(), net.x.view(), layers[0], layers[1], net.hidden[0].view(),
                                pre.view());
    const Rows before = affine(rows_of(net.x), net.w[0], net.b[0]), inner = map(before, Gelu::f);
    const Rows out = affine(inner, net.w[1], net.b[1]);
    CHECK(test_nn::worst(net.y, [&](auto r, auto c) { return out[size_t(r)][size_t(c)]; }) < 1e-5);
    CHECK(test_nn::worst(pre, [&](auto r, auto c) { return before[size_t(r)][size_t(c)]; }) < 1e-5);
    amp::nn::linear_gelu_linear_backward(best(), grads[0], {{}, grads[1].dw, grads[1].db, false}, dpre.view(),
                                         net.dy.view(), net.x.view(), layers[0], layers[1], net.hidden[0].view(),
                                         pre.view());
    const Rows top = rows_of(net.dy);
    check_layer(top, inner, net.dw[1], net.db[1], 1e-5);
    const Rows g = product(times(top, net.w[1]), map(before, Gelu::slope));
    check_layer(g, rows_of(net.x), net.dw[0], net.db[0], 1e-5);
    const Rows dx = times(g, net.w[0]);
    CHECK(test_nn::worst(net.dx, [&](auto r, auto c) { return dx[size_t(r)][size_t(c)]; }) < 1e-5);
  }
}
