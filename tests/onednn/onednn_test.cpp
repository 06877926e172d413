#include <doctest/doctest.h>

#include <amp/adapters/onednn.hpp>

#include "nn/backend.hpp"

TEST_SUITE("onednn") {
  TEST_CASE("G4 products by oneDNN with a separate epilogue are ours within tolerance, in every format") {
    const amp::nn::OneDnn backend;
    test_nn::check_products(backend);
    test_nn::check_layers(backend);
  }
  TEST_CASE("fp32 is taken by the library, scaled and mixed operands are left to our own kernel") {
    const amp::nn::OneDnn backend;
    CHECK(test_nn::takes(backend, amp::dtype::fp32));
    CHECK_FALSE(test_nn::takes(backend, amp::dtype::fp32, 0.5f));
    CHECK_FALSE(test_nn::takes(backend, amp::dtype::e4m3));
    test_nn::Matrix a(4, 8, amp::dtype::bf16), b(8, 5), c(4, 5);
    CHECK_FALSE(backend.multiply({amp::nn::plain(a.view()), amp::nn::plain(b.view()), 4, 5, 8}, c.view()));
  }
}
