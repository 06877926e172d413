/// What every GEMM backend has to do: the same checks for each library.
#pragma once
#include <doctest/doctest.h>

#include <amp/nn/linear.hpp>
#include <cmath>

#include "nn/support.hpp"

namespace test_nn {

/// Products of a backend against our own kernel, whose tests compare with double precision.
template <amp::nn::GemmBackend B>
void check_products(const B& backend) {
  struct Size {
    std::int64_t m, n, k;
  };
  for (const Size s : {Size{1, 1, 1}, {3, 5, 7}, {70, 33, 129}, {400, 1, 90}, {2, 300, 40}}) {
    for (const dtype type : {dtype::fp32, dtype::bf16, dtype::fp16}) {
      for (const int turns : {0, 1, 2, 3}) {
        const bool turn_a = (turns & 1) != 0, turn_b = (turns & 2) != 0;
        CAPTURE(s.m);
        CAPTURE(amp::name(type));
        CAPTURE(turns);
        Matrix a(turn_a ? s.k : s.m, turn_a ? s.m : s.k, type, 3, 1),
            b(turn_b ? s.n : s.k, turn_b ? s.k : s.n, type, 1);
        Matrix got(s.m, s.n, type, 2, 1), want(s.m, s.n, type), shift(1, s.n);
        a.random(1), b.random(2), shift.random(3);
        const auto f = amp::nn::chain(amp::nn::bias{static_cast<const float*>(shift.view().data)},
                                      amp::nn::activate<amp::nn::gelu_tanh>{});
        const amp::nn::operand left{a.view(), turn_a}, right{b.view(), turn_b};
        amp::nn::gemm(best(), got.view(), left, right, f, backend);
        amp::nn::gemm(best(), want.view(), left, right, f);
        CHECK(worst(got, [&](auto r, auto c) { return want.at(r, c); }) < 2 * rounding(type) + 3e-6);
        CHECK(got.gaps_intact());
      }
    }
  }
}

/// Whether the library itself took a problem of one format.
template <amp::nn::GemmBackend B>
bool takes(const B& backend, dtype type, float scale = 1.f) {
  Matrix a(4, 8, type), b(8, 5, type), c(4, 5);
  a.random(1), b.random(2);
  return backend.multiply({amp::nn::plain(a.view(), scale), amp::nn::plain(b.view()), 4, 5, 8}, c.view());
}

/// Sizes of 0, accumulation into the weight gradient, and a whole linear layer.
template <amp::nn::GemmBackend B>
void check_layers(const B& backend) {
  Matrix empty(3, 0), none(0, 4), y(3, 4);
  y.fill(9.f);
  amp::nn::gemm(best(), y.view(), amp::nn::plain(empty.view()), amp::nn::plain(none.view()), amp::nn::epilogue<>{},
                backend);
  CHECK(worst(y, [](auto, auto) { return 0.0; }) == 0);

  Matrix x(21, 30), w(17, 30), b(1, 17), dy(21, 17), out(21, 17), dx(21, 30), dw(17, 30), db(1, 17);
  Matrix own_out = out, own_dx = dx, own_dw = dw, own_db = db;
  x.random(1), w.random(2), b.random(3), dy.random(4), dw.random(5), own_dw.random(5);
  const auto run = [&](Matrix& o, Matrix& gx, Matrix& gw, Matrix& gb, const auto& with) {
    amp::nn::linear(best(), o.view(), x.view(), w.view(), b.vector(), amp::nn::relu{}, {}, with);
    amp::nn::linear_backward(best(), {gx.view(), gw.view(), gb.vector(), true}, dy.view(), x.view(), w.view(), with);
  };
  run(out, dx, dw, db, backend);
  run(own_out, own_dx, own_dw, own_db, amp::nn::blocked{});
  const auto same = [](const Matrix& got, const Matrix& want) {
    CHECK(worst(got, [&](auto r, auto c) { return want.at(r, c); }) < 3e-6);
  };
  same(out, own_out), same(dx, own_dx), same(dw, own_dw), same(db, own_db);
}

}  // namespace test_nn
