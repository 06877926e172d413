/// Products with quantised operands, and small networks that train through each recipe.
#include <doctest/doctest.h>

#include <amp/nn/fp8_linear.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "nn/support.hpp"

using amp::fp8::operand;
using test_nn::Matrix;

namespace {

/// sum over k of a[i, k] b[k, j] in double.
template <class A, class B>
double product(std::int64_t n, A a, B b) {
  double sum = 0;
  for (std::int64_t k = 0; k < n; ++k) sum += a(k) * b(k);
  return sum;
}

/// Fits y = x w^T of a hidden w by gradient descent through the recipe; returns last and first loss.
template <class R>
std::pair<double, double> train(const R& recipe, int steps, float rate) {
  constexpr std::int64_t rows = 32, in = 48, out = 16;
  Matrix x(rows, in), target(rows, out), hidden(out, in), w(out, in), y(rows, out), dy(rows, out), dw(out, in);
  x.random(1), hidden.random(2), w.fill(0.f);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t o = 0; o < out; ++o)
      target.set(r, o,
                 static_cast<float>(product(
                     in, [&](auto k) { return x.at(r, k); }, [&](auto k) { return hidden.at(o, k); })));
  }
  amp::fp8::Linear<R> layer(recipe);
  double first = 0, loss = 0;
  for (int step = 0; step < steps; ++step) {
    const amp::fp8::pass pass{.step = static_cast<std::uint64_t>(step)};
    layer.forward(amp::exec::vectorized{}, y.view(), x.view(), w.view(), {}, pass);
    loss = 0;
    for (std::int64_t i = 0; i < rows * out; ++i) {
      const double error = y[i] - target[i];
      loss += error * error / (rows * out);
      dy.set(i / out, i % out, static_cast<float>(error / rows));
    }
    if (step == 0) first = loss;
    layer.backward(amp::exec::vectorized{}, {.dw = dw.view()}, dy.view(), x.view(), w.view(), pass);
    layer.update();
    for (std::int64_t i = 0; i < out * in; ++i)
      w.set(i / in, i % in, static_cast<float>(w[i] - static_cast<double>(rate) * dw[i]));
  }
  return {loss, first};
}

}  // namespace

TEST_SUITE("nn/fp8_linear") {
  TEST_CASE("Q4 Q6 the three products are those of the dequantised operands, with blocks along each product's sum") {
    constexpr std::int64_t rows = 40, in = 70, out = 35;
    Matrix x(rows, in, amp::dtype::bf16), w(out, in), y(rows, out), dy(rows, out), dx(rows, in), dw(out, in), b(1, out),
        db(1, out);
    x.random(1), w.random(2), dy.random(3), b.random(4);
    using R = amp::fp8::mx_scaling<>;
    amp::fp8::Linear<R> layer;
    const amp::exec::vectorized executor;
    layer.forward(executor, y.view(), x.view(), w.view(), b.vector());
    layer.backward(executor, {dx.view(), dw.view(), db.vector()}, dy.view(), x.view(), w.view());
    using amp::fp8::along;
    const auto quantized = [&]<operand Role>(std::integral_constant<operand, Role>, Matrix& m, along direction) {
      return amp::fp8::quantize<Role>(executor, R{}, m.view(), {direction});
    };
    constexpr std::integral_constant<operand, operand::activation> activation;
    constexpr std::integral_constant<operand, operand::weight> weight;
    constexpr std::integral_constant<operand, operand::gradient> gradient;
    const auto x_row = quantized(activation, x, along::row), x_column = quantized(activation, x, along::column);
    const auto w_row = quantized(weight, w, along::row), w_column = quantized(weight, w, along::column);
    const auto g_row = quantized(gradient, dy, along::row), g_column = quantized(gradient, dy, along::column);
    double worst = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t o = 0; o < out; ++o)
        worst = std::max(worst, std::abs(y.at(r, o) - b[o] -
                                         product(
                                             in, [&](auto k) { return double(x_row.value_at(r, k)); },
                                             [&](auto k) { return double(w_row.value_at(o, k)); })));
      for (std::int64_t i = 0; i < in; ++i)
        worst = std::max(worst, std::abs(dx.at(r, i) - product(
                                                           out, [&](auto k) { return double(g_row.value_at(r, k)); },
                                                           [&](auto k) { return double(w_column.value_at(k, i)); })));
    }
    for (std::int64_t o = 0; o < out; ++o) {
      for (std::int64_t i = 0; i < in; ++i)
        worst =
            std::max(worst, std::abs(dw.at(o, i) - product(
                                                       rows, [&](auto k) { return double(g_column.value_at(k, o)); },
                                                       [&](auto k) { return double(x_column.value_at(k, i)); })));
      double sum = 0;
      for (std::int64_t r = 0; r < rows; ++r) sum += dy.at(r, o);
      worst = std::max(worst, std::abs(db[o] - sum));
    }
    CHECK(worst < 2e-5);
    CHECK_FALSE(layer.met_nonfinite());
  }

  TEST_CASE("Q4 with one scale per tensor the codes themselves are multiplied, in e4m3 and in e5m2") {
    Matrix x(9, 33), w(5, 33), dy(9, 5), y(9, 5, amp::dtype::bf16), dx(9, 33), dw(5, 33);
    x.random(1, 7.f), w.random(2), dy.random(3, 1e-4f);
    using R = amp::fp8::current_scaling<>;
    amp::fp8::Linear<R> layer;
    const amp::exec::vectorized executor;
    layer.forward(executor, y.view(), x.view(), w.view());
    layer.backward(executor, {dx.view(), dw.view()}, dy.view(), x.view(), w.view());
    const auto qx = amp::fp8::quantize<operand::activation>(executor, R{}, x.view());
    const auto qw = amp::fp8::quantize<operand::weight>(executor, R{}, w.view());
    const auto qg = amp::fp8::quantize<operand::gradient>(executor, R{}, dy.view());
    static_assert(std::is_same_v<decltype(qg.codes[0]), const amp::e5m2&>);
    double worst = 0;
    for (std::int64_t r = 0; r < 9; ++r) {
      for (std::int64_t o = 0; o < 5; ++o) {
        const double exact = product(
            33, [&](auto k) { return double(qx.value_at(r, k)); }, [&](auto k) { return double(qw.value_at(o, k)); });
        worst = std::max(worst, std::abs(y.at(r, o) - exact) / 32);  // bf16 keeps 8 bits of sums below 32
      }
      for (std::int64_t i = 0; i < 33; ++i)
        worst = std::max(worst, 1e3 * std::abs(dx.at(r, i) - product(
                                                                 5, [&](auto k) { return double(qg.value_at(r, k)); },
                                                                 [&](auto k) { return double(qw.value_at(k, i)); })));
    }
    for (std::int64_t o = 0; o < 5; ++o) {
      for (std::int64_t i = 0; i < 33; ++i)
        worst = std::max(worst, 1e2 * std::abs(dw.at(o, i) - product(
                                                                 9, [&](auto k) { return double(qg.value_at(k, o)); },
                                                                 [&](auto k) { return double(qx.value_at(k, i)); })));
    }
    CHECK(worst < 0.004);
  }

  TEST_CASE("Q3 the weight of later microbatches is that of the first, and its amax is collected once") {
    Matrix x(4, 8), w(3, 8), y(4, 3), other(4, 3);
    x.random(1), w.random(2);
    amp::fp8::Linear<amp::fp8::delayed_scaling<>> layer;
    layer.forward(amp::exec::vectorized{}, y.view(), x.view(), w.view());
    const float amax = layer.scales()[1].history()[0];
    w.fill(100.f);
    layer.forward(amp::exec::vectorized{}, other.view(), x.view(), w.view(), {}, {.first_microbatch = false});
    for (std::int64_t i = 0; i < 12; ++i) CHECK(other[i] == y[i]);
    CHECK(layer.scales()[1].history()[0] == amax);
    layer.forward(amp::exec::vectorized{}, other.view(), x.view(), w.view());
    CHECK(other[0] != y[0]);
    CHECK(layer.scales()[1].history()[0] == 100.f);
    int reduced = 0;
    layer.update([&](std::span<float> all) { reduced = static_cast<int>(all.size()); });
    CHECK(reduced == 3);
    CHECK(layer.scales()[1].scale().scale == 4.48f);
  }

  TEST_CASE("Q5 the rotation of NVFP4 leaves the weights' gradient what it is, up to rounding") {
    Matrix x(32, 16), w(16, 16), dy(32, 16), plain(16, 16), turned(16, 16);
    x.random(1), w.random(2), dy.random(3);
    using R = amp::fp8::nvfp4_scaling;
    amp::fp8::Linear<R> without(R{.stochastic_gradients = false}),
        with(R{.stochastic_gradients = false, .hadamard = true});
    without.backward(amp::exec::vectorized{}, {.dw = plain.view()}, dy.view(), x.view(), w.view());
    with.backward(amp::exec::vectorized{}, {.dw = turned.view()}, dy.view(), x.view(), w.view());
    double norm = 0, difference = 0;
    for (std::int64_t o = 0; o < 16; ++o) {
      for (std::int64_t i = 0; i < 16; ++i) {
        const double exact = product(
            32, [&](auto k) { return dy.at(k, o); }, [&](auto k) { return x.at(k, i); });
        norm += exact * exact;
        difference += (turned.at(o, i) - exact) * (turned.at(o, i) - exact);
      }
    }
    CHECK(std::sqrt(difference / norm) < 0.25);
    CHECK(turned[0] != plain[0]);
  }

  TEST_CASE("a bias, input or output of another size is refused") {
    Matrix x(2, 32), w(16, 32), y(2, 16), short_bias(1, 15), narrow(2, 31);
    amp::fp8::Linear<amp::fp8::current_scaling<>> layer;
    const amp::exec::vectorized executor;
    const amp::tensor_view bias{short_bias.view().data, 15, amp::dtype::fp32, true, {}};
    CHECK_THROWS_WITH_AS(layer.forward(executor, y.view(), x.view(), w.view(), bias),
                         doctest::Contains("the bias has 15 elements, but 16"), amp::error);
    CHECK_THROWS_AS(layer.forward(executor, y.view(), narrow.view(), w.view()), amp::error);
    CHECK_THROWS_AS(layer.forward(executor, narrow.view(), x.view(), w.view()), amp::error);
    CHECK_THROWS_AS(layer.backward(executor, {.dw = w.view()}, narrow.view(), x.view(), w.view()), amp::error);
  }

  TEST_CASE("Q7 an operand with an infinity is noticed") {
    Matrix x(2, 32), w(2, 32), y(2, 2);
    x.random(1).set(1, 1, std::numeric_limits<float>::infinity()), w.random(2);
    amp::fp8::Linear<amp::fp8::mx_scaling<>> layer;
    layer.forward(amp::exec::vectorized{}, y.view(), x.view(), w.view());
    CHECK(layer.met_nonfinite());
  }

  TEST_CASE("Q1 Q3 Q6 a layer learns through delayed scaling") {
    const auto [last, first] = train(amp::fp8::delayed_scaling<>{.history = 16}, 150, 0.5f);
    CHECK(last < 0.01 * first);
  }
  TEST_CASE("Q4 Q6 a layer learns through current scaling and through MXFP8") {
    const auto [current, first] = train(amp::fp8::current_scaling<>{}, 150, 0.5f);
    CHECK(current < 0.01 * first);
    CHECK(train(amp::fp8::mx_scaling<>{}, 150, 0.5f).first < 0.01 * first);
  }
  TEST_CASE("Q4 Q5 Q6 a layer learns through block scaling and through NVFP4") {
    const auto [block, first] = train(amp::fp8::block_scaling<>{}, 150, 0.5f);
    CHECK(block < 0.01 * first);
    CHECK(train(amp::fp8::nvfp4_scaling{.hadamard = true}, 150, 0.5f).first < 0.1 * first);
  }
}
