#include <doctest/doctest.h>

#include <amp/nn/epilogue.hpp>
#include <atomic>
#include <cmath>
#include <limits>

#include "nn/support.hpp"

using amp::dtype;
using test_nn::best;
using test_nn::Matrix;

TEST_SUITE("nn/epilogue") {
  TEST_CASE("stages run in their order: bias, keep, activation, scale, residual") {
    for (const dtype type : {dtype::fp32, dtype::bf16}) {
      Matrix x(9, 2500), shift(1, 2500), kept(9, 2500, type), other(9, 2500, type, 1, 1), y(9, 2500, dtype::fp32, 2);
      x.random(1), shift.random(2), other.random(3);
      amp::nn::apply_epilogue(
          best(), y.view(), x.view(),
          amp::nn::chain(amp::nn::bias{static_cast<const float*>(shift.view().data)}, amp::nn::keep{kept.view()},
                         amp::nn::activate<amp::nn::relu>{}, amp::nn::scaled{3.f}, amp::nn::residual{other.view()}));
      const auto pre = [&](auto r, auto c) { return x.at(r, c) + shift[c]; };
      CHECK(test_nn::worst(kept, pre) < test_nn::rounding(type) + 1e-7);
      CHECK(test_nn::worst(y, [&](auto r, auto c) { return 3 * std::max(0.0, pre(r, c)) + other.at(r, c); }) < 1e-6);
      CHECK(y.gaps_intact());
    }
  }

  TEST_CASE("backward stages multiply by the slope at the kept input or from the output") {
    Matrix dy(5, 100), input(5, 100, dtype::bf16), output(5, 100, dtype::fp16), y(5, 100);
    dy.random(1), input.random(2, 2.f), output.random(3, 0.5f, 0.5f);
    amp::nn::apply_epilogue(best(), y.view(), dy.view(),
                            amp::nn::chain(amp::nn::times_slope<amp::nn::relu>{input.view()},
                                           amp::nn::times_slope_from_output<amp::nn::sigmoid>{output.view()}));
    CHECK(test_nn::worst(y, [&](auto r, auto c) {
            return dy.at(r, c) * (input.at(r, c) > 0 ? 1 : 0) * output.at(r, c) * (1 - output.at(r, c));
          }) < 1e-6);
  }

  TEST_CASE("amax is the largest magnitude over all rows and threads, NaNs passed over") {
    Matrix x(300, 700);
    x.random(1);
    x.set(299, 699, -41.5f);
    x.set(5, 0, std::numeric_limits<float>::quiet_NaN());
    for (const auto& executor : test_nn::executors()) {
      std::atomic<float> amax{1.f};
      amp::nn::apply_epilogue(executor.run, x.view(), x.view(), amp::nn::chain(amp::nn::record_amax{&amax}));
      CAPTURE(executor.name);
      CHECK(amax.load() == 41.5f);
    }
  }

  TEST_CASE("every executor gives the same bits, in place too") {
    std::vector<unsigned char> first;
    for (const auto& executor : test_nn::executors()) {
      Matrix x(130, 777, dtype::fp16, 1);
      x.random(1, 4.f);
      amp::nn::apply_epilogue(executor.run, x.view(), x.view(),
                              amp::nn::chain(amp::nn::activate<amp::nn::gelu_tanh>{}));
      if (first.empty()) first = x.bytes();
      CAPTURE(executor.name);
      CHECK(x.bytes() == first);
    }
  }
}
