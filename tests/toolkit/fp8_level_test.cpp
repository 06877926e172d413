/// A small network that trains at a bf16 level whose GEMM operands are quantised by the level's recipe.
#include <doctest/doctest.h>

#include <amp/half_traits.hpp>
#include <amp/nn/fp8_linear.hpp>
#include <amp/opt_level.hpp>
#include <amp/optim/adam.hpp>
#include <amp/optim/param_source.hpp>
#include <amp/session.hpp>
#include <amp/tensor/matrix.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace {

constexpr std::int64_t batch = 32, in = 32, hidden = 32;

/// in -> hidden (ReLU) -> 1 with weights of type T and products through the recipe.
template <class T, class R>
struct Perceptron {
  std::vector<T> w1, w2, w1_grad, w2_grad;
  amp::fp8::Linear<R> first, second;
  std::vector<float> inner, out;  ///< kept for the backward pass
  amp::fp8::pass pass;

  Perceptron() : w1(hidden * in), w2(hidden), w1_grad(hidden * in), w2_grad(hidden), first(R{}, 1), second(R{}, 2) {
    for (std::size_t i = 0; i < w1.size(); ++i) w1[i] = T(0.3f * std::sin(static_cast<float>(i * i % 1013)));
    for (std::size_t i = 0; i < w2.size(); ++i) w2[i] = T(0.3f * std::cos(static_cast<float>(i * 7)));
  }
  template <class U>
  [[nodiscard]] Perceptron<U, R> cast(bool /*fp32_norms*/) const {
    return {};
  }
  [[nodiscard]] std::vector<amp::Param> parameters() {
    return {amp::make_param("w1", w1, w1_grad), amp::make_param("w2", w2, w2_grad)};
  }
  const std::vector<float>& forward(const std::vector<T>& x) {
    inner.assign(batch * hidden, 0.f), out.assign(batch, 0.f);
    const amp::exec::vectorized executor;
    first.forward(executor, amp::as_matrix(inner.data(), batch, hidden), amp::as_matrix(x.data(), batch, in),
                  amp::as_matrix(w1.data(), hidden, in), {}, pass);
    for (float& v : inner) v = v > 0.f ? v : 0.f;
    second.forward(executor, amp::as_matrix(out.data(), batch, 1), amp::as_matrix(inner.data(), batch, hidden),
                   amp::as_matrix(w2.data(), 1, hidden), {}, pass);
    return out;
  }
  void backward(const std::vector<T>& x, const std::vector<float>& dy) {
    std::vector<float> d_inner(batch * hidden);
    const amp::exec::vectorized executor;
    const auto dy_view = amp::as_matrix(dy.data(), batch, 1);
    second.backward(
        executor,
        {.dx = amp::as_matrix(d_inner.data(), batch, hidden), .dw = amp::as_matrix(w2_grad.data(), 1, hidden)}, dy_view,
        amp::as_matrix(inner.data(), batch, hidden), amp::as_matrix(w2.data(), 1, hidden), pass);
    for (std::size_t i = 0; i < d_inner.size(); ++i) d_inner[i] = inner[i] > 0.f ? d_inner[i] : 0.f;
    first.backward(executor, {.dw = amp::as_matrix(w1_grad.data(), hidden, in)},
                   amp::as_matrix(d_inner.data(), batch, hidden), amp::as_matrix(x.data(), batch, in),
                   amp::as_matrix(w1.data(), hidden, in), pass);
    ++pass.step;
    first.update(), second.update();
  }
};

/// First and last loss of 200 steps at level L.
template <amp::OptLevel L>
std::pair<float, float> losses() {
  using R = amp::fp8::recipe_type<L.gemm>;
  auto session = amp::initialize<L>(Perceptron<float, R>{}, amp::Adam{.lr = 3e-3f});
  auto& net = session.model();
  std::vector<amp::bfloat16> x;
  std::vector<float> target;
  for (std::int64_t r = 0; r < batch; ++r) {
    float sum = 0;
    for (std::int64_t i = 0; i < in; ++i) {
      x.emplace_back(std::sin(static_cast<float>((r + 1) * (i + 3) % 97)));
      sum += float(x.back()) * (i % 3 == 0 ? 0.5f : -0.2f);
    }
    target.push_back(std::abs(sum));
  }
  float first = 0, loss = 0;
  for (int step = 0; step < 200; ++step) {
    const auto& y = net.forward(x);
    std::vector<float> dy;
    loss = 0;
    for (std::size_t r = 0; r < target.size(); ++r) {
      const float error = y[r] - target[r];
      loss += error * error / batch;
      dy.push_back(2 * error / batch);
    }
    if (step == 0) first = loss;
    session.zero_grad();
    amp::scale_loss(loss, session, [&](float) { net.backward(x, dy); });  // a bf16 level scales by 1
    session.step();
  }
  return {first, loss};
}

template <amp::fp8::recipe R>
float share_that_is_left() {
  const auto [first, last] = losses<amp::O2_bf16.with(R)>();
  return last / first;
}

}  // namespace

TEST_SUITE("toolkit/fp8_level") {
  TEST_CASE("Q1 Q3 L1 a bf16 level with a recipe of delayed scaling trains a network of two layers in fp8 products") {
    CHECK(share_that_is_left<amp::fp8::hybrid>() < 0.05f);
    CHECK(share_that_is_left<amp::fp8::e4m3>() < 0.05f);
  }

  TEST_CASE("Q4 L1 a bf16 level with current scaling, block scaling or MXFP8 trains a network of two layers") {
    CHECK(share_that_is_left<amp::fp8::current>() < 0.05f);
    CHECK(share_that_is_left<amp::fp8::block>() < 0.05f);
    CHECK(share_that_is_left<amp::fp8::mxfp8>() < 0.05f);
  }

  TEST_CASE("Q5 L1 a bf16 level with NVFP4 trains a network of two layers, with the coarser result of four bits") {
    const float left = share_that_is_left<amp::fp8::nvfp4>();
    CHECK(left < 0.2f);
    CHECK(left > share_that_is_left<amp::fp8::hybrid>());
  }
}
