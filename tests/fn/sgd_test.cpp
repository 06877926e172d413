#include <doctest/doctest.h>

#include <amp/fn/sgd.hpp>
#include <amp/fn/unless.hpp>
#include <amp/multi_tensor_apply.hpp>
#include <cmath>
#include <cstdint>
#include <vector>

namespace {

struct options {
  double lr = 0.1, momentum = 0.9, dampening = 0.0, decay = 0.0;
  bool nesterov = false, decay_after = false;
};

double gradient(int t) { return std::cos(t * 0.7); }

/// The formula in double.
double reference(const options& o, int steps) {
  double w = 1.0, b = 0.0;
  for (int t = 0; t < steps; ++t) {
    double d = gradient(t);
    if (!o.decay_after) d += o.decay * w;
    if (o.momentum != 0) {
      b = t == 0 ? d : o.momentum * b + (1 - o.dampening) * d;
      d = o.nesterov ? d + o.momentum * b : b;
    }
    if (o.decay_after) d += o.decay * w;
    w -= o.lr * d;
  }
  return w;
}

float run(const options& o, int steps) {
  std::vector<float> w(21, 1.f), b(21, -99.f), g(21);  // a momentum buffer that holds nothing must not be read
  std::vector<amp::tensor_view> weights{amp::as_view(w)}, buffers{amp::as_view(b)}, grads{amp::as_view(g)};
  amp::fn::Sgd f{.lr = static_cast<float>(o.lr),
                 .momentum = static_cast<float>(o.momentum),
                 .one_minus_dampening = static_cast<float>(1 - o.dampening),
                 .decay = static_cast<float>(o.decay),
                 .nesterov = o.nesterov,
                 .decay_after = o.decay_after};
  for (int t = 0; t < steps; ++t) {
    g.assign(21, static_cast<float>(gradient(t)));
    f.first = t == 0;
    if (o.momentum != 0) {
      amp::multi_tensor_apply(amp::exec::vectorized{}, f, weights, buffers, amp::lane::in(grads));
    } else {
      amp::multi_tensor_apply(amp::exec::vectorized{}, f, weights, amp::lane::in(grads));
    }
  }
  CHECK(w[0] == w[20]);
  return w[20];
}

}  // namespace

TEST_SUITE("fn/sgd") {
  TEST_CASE("F3 every combination of momentum, dampening, nesterov and decay follows the formula in double") {
    for (const double momentum : {0.0, 0.9}) {
      for (const double dampening : {0.0, 0.3}) {
        for (const bool nesterov : {false, true}) {
          for (const double decay : {0.0, 0.1}) {
            for (const bool after : {false, true}) {
              if (nesterov && (momentum == 0 || dampening != 0)) continue;
              const options o{0.1, momentum, dampening, decay, nesterov, after};
              CHECK(run(o, 6) == doctest::Approx(reference(o, 6)).epsilon(1e-6));
            }
          }
        }
      }
    }
  }

  TEST_CASE("F3 first use is told apart tensor by tensor") {
    std::vector<float> w1(70, 1.f), w2(70, 1.f), b1(70, 5.f), b2(70, 5.f), g(70, 1.f);
    std::vector<amp::tensor_view> weights{amp::as_view(w1), amp::as_view(w2)},
        buffers{amp::as_view(b1), amp::as_view(b2)};
    const std::vector<amp::tensor_view> grads{amp::as_view(g), amp::as_view(g)};
    const std::vector<std::uint8_t> first{1, 0};
    amp::fn::Sgd f{.lr = 1.f, .momentum = 0.5f};
    f.first_of = first.data();
    for (const std::int64_t chunk : {16, 65536}) {
      b1.assign(70, 5.f);
      b2.assign(70, 5.f);
      amp::multi_tensor_apply(amp::exec::vectorized{.chunk = chunk}, f, weights, buffers, amp::lane::in(grads));
      CHECK(b1[69] == 1.f);
      CHECK(b2[69] == 3.5f);
    }
  }

  TEST_CASE("F3 gradient, parameter and model copy may be 16/16/-, 32/32/-, 16/32/16 and 32/32/16 bits") {
    const auto step = [](amp::tensor_view w, amp::tensor_view g, amp::tensor_view copy) {
      std::vector<float> b(w.size >= 0 ? static_cast<std::size_t>(w.size) : 0);
      std::vector<amp::tensor_view> weights{w}, buffers{amp::as_view(b)}, grads{g}, copies{copy};
      copies[0].size = w.size;
      amp::fn::Sgd f{.lr = 0.5f, .momentum = 0.9f};
      f.first = true;
      amp::multi_tensor_apply(amp::exec::vectorized{}, f, amp::lane::inout_with_copy(weights, copies), buffers,
                              amp::lane::in(grads));
    };
    std::vector<amp::half> w16(50, amp::half(1.f)), g16(50, amp::half(0.3f)), c16(50);
    std::vector<float> w32(50, 1.f), g32(50, 0.3f);
    step(amp::as_view(w16), amp::as_view(g16), {});
    CHECK(w16[49].bits() == amp::half(1.f - 0.5f * float(amp::half(0.3f))).bits());
    step(amp::as_view(w32), amp::as_view(g32), {});
    CHECK(w32[49] == 1.f - 0.5f * 0.3f);
    w32.assign(50, 1.f);
    step(amp::as_view(w32), amp::as_view(g16), amp::as_view(c16));
    CHECK(w32[49] == 1.f - 0.5f * float(amp::half(0.3f)));
    CHECK(c16[49].bits() == amp::half(w32[49]).bits());
    w32.assign(50, 1.f);
    step(amp::as_view(w32), amp::as_view(g32), amp::as_view(c16));
    CHECK(c16[49].bits() == amp::half(1.f - 0.5f * 0.3f).bits());
  }

  TEST_CASE("A6 F3 a flag makes the step a no-op, and a report's flag will do") {
    std::vector<float> w(9, 1.f), g(9, 1.f);
    std::vector<amp::tensor_view> weights{amp::as_view(w)}, grads{amp::as_view(g)};
    amp::nonfinite_report report;
    const auto step = amp::fn::unless(&report.flag, amp::fn::Sgd{.lr = 0.5f});
    amp::multi_tensor_apply(amp::exec::vectorized{}, step, weights, amp::lane::in(grads));
    CHECK(w[8] == 0.5f);
    report.add(0);
    amp::multi_tensor_apply(amp::exec::vectorized{}, step, weights, amp::lane::in(grads));
    CHECK(w[8] == 0.5f);
  }
}
