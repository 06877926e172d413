#include <doctest/doctest.h>

#include <amp/adapters/blas.hpp>

#include "nn/backend.hpp"

TEST_SUITE("blas") {
  TEST_CASE("G4 products by CBLAS with a separate epilogue are ours within tolerance, in every format") {
    test_nn::check_products(amp::nn::Blas{});
    test_nn::check_layers(amp::nn::Blas{});
  }
  TEST_CASE("CBLAS takes every format, and scales of fp8 operands") {
    for (const auto type : {amp::dtype::fp32, amp::dtype::fp16, amp::dtype::bf16, amp::dtype::e4m3}) {
      CHECK(test_nn::takes(amp::nn::Blas{}, type));
    }
    test_nn::Matrix a(2, 3, amp::dtype::e4m3), b(3, 2), y(2, 2), own(2, 2);
    a.random(1, 100.f), b.random(2);
    amp::nn::gemm(test_nn::best(), y.view(), amp::nn::plain(a.view(), 0.25f), amp::nn::plain(b.view()),
                  amp::nn::epilogue<>{}, amp::nn::Blas{});
    amp::nn::gemm(test_nn::best(), own.view(), amp::nn::plain(a.view(), 0.25f), amp::nn::plain(b.view()));
    CHECK(test_nn::worst(y, [&](auto r, auto c) { return own.at(r, c); }) < 1e-6);
  }
  TEST_CASE("what is larger than CBLAS can say is left to our own kernel") {
    amp::matrix_view wide{nullptr, 1, 1, std::int64_t{1} << 32, amp::dtype::fp32, false, {}};
    CHECK_FALSE(amp::nn::Blas{}.multiply({amp::nn::plain(wide), amp::nn::plain(wide), 1, 1, 1}, wide));
  }
}
