#include <doctest/doctest.h>

#include <amp/nn/layer_norm.hpp>
#include <amp/nn/linear.hpp>
#include <amp/nn/softmax.hpp>
#include <cstdint>
#include <cstring>
#include <vector>

#include "nn/support.hpp"

namespace {

/// FNV-1a over the bits of all results.
class Hash {
 public:
  void add(const std::vector<float>& values) {
    for (const float value : values) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof bits);
      state_ = (state_ ^ bits) * 1099511628211u;
    }
  }
  [[nodiscard]] std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 1469598103934665603u;
};

std::vector<float> spread(std::int64_t count, std::int64_t step, float scale, float offset) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i * step % 1000) * scale + offset);
  return values;
}

}  // namespace

TEST_SUITE("nn/bits") {
  // g++ 12 at -O0 to -O3 and with -march=native, clang 14 at -O2: all gave this number, on all four targets.
  TEST_CASE("X4 layers give the recorded bits, whatever compiler, optimisation and target") {
    constexpr std::int64_t rows = 37, columns = 301;
    for (const auto& executor : test_nn::executors()) {
      const auto x = spread(rows * columns, 7919, 0x1p-9f, -1.f), d = spread(rows * columns, 104729, 0x1p-9f, -1.f);
      auto w = spread(columns * columns, 31337, 0x1p-12f, -0.125f);
      std::vector<float> y(x.size()), z(x.size()), gamma(columns, 1.25f), beta(columns, 0.25f), dgamma(columns),
          dbeta(columns), mean(rows), rstd(rows);
      const auto matrix = [&](auto& v) {
        return amp::as_matrix(v.data(), static_cast<std::int64_t>(v.size()) / columns, columns);
      };
      const amp::nn::norm_saved saved{mean.data(), rstd.data()};
      Hash hash;
      amp::nn::layer_norm(executor.run, matrix(y), matrix(x), amp::as_view(gamma), amp::as_view(beta), 1e-5f, saved);
      hash.add(y);
      amp::nn::layer_norm_backward(executor.run, {matrix(z), amp::as_view(dgamma), amp::as_view(dbeta)}, matrix(d),
                                   matrix(x), amp::as_view(gamma), saved);
      hash.add(z), hash.add(dgamma), hash.add(dbeta);
      amp::nn::linear(executor.run, matrix(y), matrix(x), matrix(w), amp::as_view(beta), amp::nn::gelu_erf{},
                      matrix(z));
      hash.add(y), hash.add(z);
      amp::nn::softmax(executor.run, matrix(y), matrix(z));
      hash.add(y);
      std::vector<float> dpre(x.size()), dw(w.size());
      amp::nn::linear_backward(executor.run, {matrix(y), matrix(dw), amp::as_view(dbeta)}, matrix(dpre), matrix(d),
                               matrix(z), matrix(x), matrix(w), amp::nn::gelu_tanh{});
      hash.add(y), hash.add(dw), hash.add(dbeta), hash.add(dpre);
      CAPTURE(executor.name);
      CHECK(hash.value() == 13860191344036588283u);
    }
  }
}
