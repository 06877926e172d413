#include <doctest/doctest.h>

#include <amp/nn/hadamard.hpp>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

TEST_SUITE("nn/hadamard") {
  TEST_CASE("Q5 the rotation is the Sylvester matrix over 4 with signs, and comes back") {
    const std::uint16_t signs = 0xa5c3;
    for (int column = 0; column < 16; ++column) {
      float x[16] = {};
      x[column] = 1.f;
      amp::nn::hadamard16(x, 1, signs);
      const float sign = ((signs >> column) & 1) != 0 ? -1.f : 1.f;
      for (int row = 0; row < 16; ++row)
        CHECK(x[row] == sign * (std::popcount(static_cast<unsigned>(row & column)) % 2 == 0 ? 0.25f : -0.25f));
      amp::nn::inverse_hadamard16(x, 1, signs);
      for (int row = 0; row < 16; ++row) CHECK(x[row] == (row == column ? 1.f : 0.f));
    }
  }

  TEST_CASE("Q5 two matrices turned alike keep the product over their rows, an outlier spreads") {
    constexpr int rows = 37, columns = 3;  // two turned blocks and five rows left over
    std::vector<float> a, b;
    for (int i = 0; i < rows * columns; ++i) {
      a.push_back(static_cast<float>(i * 7 % 11 - 5));
      b.push_back(static_cast<float>(i * 5 % 13 - 6));
    }
    a[4] = 100.f;
    const auto product = [&](int i, int j) {
      double sum = 0;
      for (int r = 0; r < rows; ++r)
        sum += static_cast<double>(a[static_cast<std::size_t>(r * columns + i)]) *
               static_cast<double>(b[static_cast<std::size_t>(r * columns + j)]);
      return sum;
    };
    std::vector<double> before, after;
    for (int i = 0; i < columns; ++i)
      for (int j = 0; j < columns; ++j) before.push_back(product(i, j));
    const float left_over = a.back();
    amp::nn::rotate_rows(a.data(), rows, columns, 0x1234);
    amp::nn::rotate_rows(b.data(), rows, columns, 0x1234);
    for (int i = 0; i < columns; ++i)
      for (int j = 0; j < columns; ++j) after.push_back(product(i, j));
    for (std::size_t k = 0; k < before.size(); ++k) CHECK(after[k] == doctest::Approx(before[k]).epsilon(1e-5));
    CHECK(a.back() == left_over);
    for (int r = 0; r < 16; ++r) CHECK(std::abs(a[static_cast<std::size_t>(r * columns + 1)]) < 40.f);
  }
}
