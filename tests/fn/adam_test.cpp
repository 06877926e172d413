#include <doctest/doctest.h>

#include <amp/fn/adam.hpp>
#include <amp/multi_tensor_apply.hpp>
#include <cmath>
#include <cstdint>
#include <vector>

namespace {

/// One element in double, from the papers' formulas.
struct Element {
  double w = 1.0, m = 0.0, v = 0.0;
};

constexpr double lr = 0.1, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, decay = 0.05;

double gradient(int t) { return std::sin(t * 1.3) * 0.5; }

template <class F>
float run(int steps, const F& functor_of) {
  std::vector<float> w(19, 1.f), m(19), v(19), g(19);
  const std::vector<amp::tensor_view> weights{amp::as_view(w)}, first{amp::as_view(m)}, second{amp::as_view(v)};
  std::vector<amp::tensor_view> grads{amp::as_view(g)};
  for (int t = 1; t <= steps; ++t) {
    g.assign(19, static_cast<float>(gradient(t)));
    amp::multi_tensor_apply(amp::exec::vectorized{}, functor_of(t), amp::lane::inout(weights), amp::lane::inout(first),
                            amp::lane::inout(second), amp::lane::in(grads));
  }
  CHECK(w[0] == w[18]);  // the vector and the tail
  return w[18];
}

constexpr auto one_minus(double beta) { return static_cast<float>(1.0 - beta); }

}  // namespace

TEST_SUITE("fn/adam") {
  TEST_CASE("F1 AdamW follows its formula in double over ten steps") {
    Element e;
    for (int t = 1; t <= 10; ++t) {
      const double g = gradient(t);
      e.m = beta1 * e.m + (1 - beta1) * g;
      e.v = beta2 * e.v + (1 - beta2) * g * g;
      const double u = e.m / (1 - std::pow(beta1, t)) / (std::sqrt(e.v / (1 - std::pow(beta2, t))) + eps) + decay * e.w;
      e.w -= lr * u;
    }
    const float w = run(10, [](int t) {
      return amp::fn::AdamW{.lr = static_cast<float>(lr),
                            .beta1 = static_cast<float>(beta1),
                            .one_minus_beta1 = one_minus(beta1),
                            .beta2 = static_cast<float>(beta2),
                            .one_minus_beta2 = one_minus(beta2),
                            .eps = static_cast<float>(eps),
                            .decay = static_cast<float>(decay),
                            .inv_bias1 = static_cast<float>(1 / (1 - std::pow(beta1, t))),
                            .inv_bias2 = static_cast<float>(1 / (1 - std::pow(beta2, t)))};
    });
    CHECK(w == doctest::Approx(e.w).epsilon(1e-6));
  }

  TEST_CASE("F1 Adam adds the decay to the gradient") {
    Element e;
    for (int t = 1; t <= 10; ++t) {
      const double g = gradient(t) + decay * e.w;
      e.m = beta1 * e.m + (1 - beta1) * g;
      e.v = beta2 * e.v + (1 - beta2) * g * g;
      e.w -= lr * (e.m / (1 - std::pow(beta1, t)) / (std::sqrt(e.v / (1 - std::pow(beta2, t))) + eps));
    }
    const float w = run(10, [](int t) {
      return amp::fn::Adam{.lr = static_cast<float>(lr),
                           .beta1 = static_cast<float>(beta1),
                           .one_minus_beta1 = one_minus(beta1),
                           .beta2 = static_cast<float>(beta2),
                           .one_minus_beta2 = one_minus(beta2),
                           .eps = static_cast<float>(eps),
                           .decay = static_cast<float>(decay),
                           .inv_bias1 = static_cast<float>(1 / (1 - std::pow(beta1, t))),
                           .inv_bias2 = static_cast<float>(1 / (1 - std::pow(beta2, t)))};
    });
    CHECK(w == doctest::Approx(e.w).epsilon(1e-6));
  }

  TEST_CASE("without decay the two have equal bits") {
    const auto with = [](auto f) {
      f.lr = 0.1f, f.beta1 = 0.9f, f.one_minus_beta1 = 0.1f, f.beta2 = 0.99f, f.one_minus_beta2 = 0.01f, f.eps = 1e-8f,
      f.decay = 0.f;
      return run(7, [&](int) { return f; });
    };
    CHECK(with(amp::fn::AdamW{}) == with(amp::fn::Adam{}));
  }

  TEST_CASE("F12 HfAdamW steps by lr*sqrt(c2)/c1 * m/(sqrt(v)+eps), then decays the weight that was stepped") {
    constexpr double hf_eps = 1e-6;
    Element e;
    const auto step_size = [](int t) { return lr * std::sqrt(1 - std::pow(beta2, t)) / (1 - std::pow(beta1, t)); };
    for (int t = 1; t <= 10; ++t) {
      const double g = gradient(t);
      e.m = beta1 * e.m + (1 - beta1) * g;
      e.v = beta2 * e.v + (1 - beta2) * g * g;
      e.w -= step_size(t) * e.m / (std::sqrt(e.v) + hf_eps);
      e.w -= lr * decay * e.w;
    }
    const float w = run(10, [&](int t) {
      return amp::fn::HfAdamW{.step_size = static_cast<float>(step_size(t)),
                              .beta1 = static_cast<float>(beta1),
                              .one_minus_beta1 = one_minus(beta1),
                              .beta2 = static_cast<float>(beta2),
                              .one_minus_beta2 = one_minus(beta2),
                              .eps = static_cast<float>(hf_eps),
                              .lr_decay = static_cast<float>(lr * decay)};
    });
    CHECK(w == doctest::Approx(e.w).epsilon(1e-6));
  }

  TEST_CASE("F1 a low weight without master and with a zero gradient stays unchanged and finite") {
    std::vector<amp::half> w(33, amp::half(0.1f)), g(33);
    std::vector<float> m(33), v(33);
    const amp::fn::AdamW f{.lr = 1e-3f,
                           .beta1 = 0.9f,
                           .one_minus_beta1 = 0.1f,
                           .beta2 = 0.999f,
                           .one_minus_beta2 = 0.001f,
                           .eps = 1e-8f,
                           .decay = 0.f};
    std::vector<amp::tensor_view> weights{amp::as_view(w)}, first{amp::as_view(m)}, second{amp::as_view(v)};
    amp::multi_tensor_apply(amp::exec::vectorized{}, f, weights, first, second,
                            amp::lane::in(std::vector{amp::as_view(g)}));
    for (const auto x : w) CHECK(x.bits() == amp::half(0.1f).bits());
  }
}
