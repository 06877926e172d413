#include <doctest/doctest.h>

#include <amp/nn/gemm.hpp>
#include <atomic>
#include <cmath>
#include <vector>

#include "nn/support.hpp"

using amp::dtype;
using amp::nn::operand;
using test_nn::best;
using test_nn::Matrix;

namespace {

double element(const Matrix& m, bool turned, std::int64_t i, std::int64_t j) {
  return turned ? m.at(j, i) : m.at(i, j);
}

/// The product in double, and the sum of magnitudes that bounds what fp32 may be off by.
struct Product {
  double value, magnitude;
};
Product product(const Matrix& a, bool turn_a, const Matrix& b, bool turn_b, std::int64_t i, std::int64_t j) {
  const std::int64_t k = turn_a ? a.rows() : a.columns();
  Product sum{0, 0};
  for (std::int64_t q = 0; q < k; ++q) {
    const double term = element(a, turn_a, i, q) * element(b, turn_b, q, j);
    sum.value += term, sum.magnitude += std::abs(term);
  }
  return sum;
}
Matrix stored(std::int64_t rows, std::int64_t columns, bool turned, dtype type, std::int64_t gap, std::int64_t shift) {
  return turned ? Matrix(columns, rows, type, gap, shift) : Matrix(rows, columns, type, gap, shift);
}

/// Largest error of y = a b in units of the bound: k additions of fp32 and the store's rounding.
double error_of(const Matrix& y, const Matrix& a, bool turn_a, const Matrix& b, bool turn_b, dtype type) {
  double most = 0;
  for (std::int64_t i = 0; i < y.rows(); ++i) {
    for (std::int64_t j = 0; j < y.columns(); ++j) {
      const Product want = product(a, turn_a, b, turn_b, i, j);
      const double allowed = 1e-6 * want.magnitude + test_nn::rounding(type) * std::abs(want.value) + 1e-30;
      const double off = std::abs(y.at(i, j) - want.value) / allowed;
      most = off <= most ? most : (std::isnan(off) ? 1e300 : off);
    }
  }
  return most;
}

}  // namespace

TEST_SUITE("nn/gemm") {
  TEST_CASE("G4 every transposition, odd sizes, leading dimensions and starts match double precision") {
    struct Size {
      std::int64_t m, n, k;
    };
    for (const Size s :
         {Size{1, 1, 1}, {3, 5, 7}, {13, 33, 17}, {12, 32, 256}, {25, 49, 257}, {193, 385, 10}, {2, 400, 530}}) {
      for (const bool turn_a : {false, true}) {
        for (const bool turn_b : {false, true}) {
          CAPTURE(s.m);
          CAPTURE(turn_a);
          CAPTURE(turn_b);
          Matrix a = stored(s.m, s.k, turn_a, dtype::fp32, 3, 1), b = stored(s.k, s.n, turn_b, dtype::fp32, 5, 3);
          Matrix y(s.m, s.n, dtype::fp32, 1, 1);
          a.random(1), b.random(2);
          amp::nn::gemm(best(), y.view(), operand{a.view(), turn_a}, operand{b.view(), turn_b});
          CHECK(error_of(y, a, turn_a, b, turn_b, dtype::fp32) < 1);
          CHECK(y.gaps_intact());
        }
      }
    }
  }

  TEST_CASE("B40 n of 1, and lengths 1 to 33 at every odd start") {
    Matrix a(13824, 400), b(1, 400), y(13824, 1);
    a.random(1), b.random(2);
    amp::nn::gemm(best(), y.view(), amp::nn::plain(a.view()), amp::nn::transposed(b.view()));
    CHECK(error_of(y, a, false, b, true, dtype::fp32) < 1);
    for (std::int64_t n = 1; n <= 33; ++n) {
      Matrix left(n, 34 - n, dtype::bf16, 1, n % 4), right(34 - n, n, dtype::bf16, 0, 1), out(n, n, dtype::bf16, 0, 1);
      left.random(3), right.random(4);
      amp::nn::gemm(best(), out.view(), amp::nn::plain(left.view()), amp::nn::plain(right.view()));
      CAPTURE(n);
      CHECK(error_of(out, left, false, right, false, dtype::bf16) < 1);
      CHECK(out.gaps_intact());
    }
  }

  TEST_CASE("G1 operands and results in any formats accumulate in fp32 and round once") {
    for (const dtype left : {dtype::fp32, dtype::fp16, dtype::bf16}) {
      for (const dtype right : {dtype::fp32, dtype::bf16}) {
        for (const dtype out : {dtype::fp32, dtype::fp16, dtype::bf16}) {
          CAPTURE(amp::name(left));
          CAPTURE(amp::name(right));
          CAPTURE(amp::name(out));
          Matrix a(31, 600, left), b(29, 600, right), y(31, 29, out);
          a.random(1), b.random(2);
          amp::nn::gemm(best(), y.view(), amp::nn::plain(a.view()), amp::nn::transposed(b.view()));
          CHECK(error_of(y, a, false, b, true, out) < 1);
        }
      }
    }
  }

  TEST_CASE("G4 with m, n or k of 0 nothing is read, and k of 0 gives the epilogue of zeros") {
    Matrix a(3, 0), b(0, 4), y(3, 4), c(1, 4);
    c.random(5), y.fill(9.f);
    const auto add = amp::nn::chain(amp::nn::bias{static_cast<const float*>(c.view().data)});
    amp::nn::gemm(best(), y.view(), amp::nn::plain(a.view()), amp::nn::plain(b.view()), add);
    for (std::int64_t r = 0; r < 3; ++r) {
      for (std::int64_t k = 0; k < 4; ++k) CHECK(y.at(r, k) == c[k]);
    }
    Matrix no_rows(0, 4), none(0, 7), weights(7, 4), no_columns(5, 0), left(5, 7), empty(7, 0);
    amp::nn::gemm(best(), no_rows.view(), amp::nn::plain(none.view()), amp::nn::plain(weights.view()), add);
    amp::nn::gemm(best(), no_columns.view(), amp::nn::plain(left.view()), amp::nn::plain(empty.view()));
    CHECK((no_rows.gaps_intact() && no_columns.gaps_intact()));
  }

  TEST_CASE("every executor, target and thread count gives the same bits") {
    for (const dtype type : {dtype::fp32, dtype::bf16}) {
      Matrix a(200, 300, type, 1), b(400, 300, type), c(1, 400);
      a.random(1), b.random(2), c.random(3);
      std::vector<unsigned char> first;
      for (const auto& executor : test_nn::executors()) {
        Matrix y(200, 400, type, 3, 1);
        amp::nn::gemm(executor.run, y.view(), amp::nn::plain(a.view()), amp::nn::transposed(b.view()),
                      amp::nn::chain(amp::nn::bias{static_cast<const float*>(c.view().data)},
                                     amp::nn::activate<amp::nn::gelu_erf>{}));
        if (first.empty()) first = y.bytes();
        CAPTURE(executor.name);
        CHECK(y.bytes() == first);
      }
    }
  }

  TEST_CASE("G5 fp8 operands are multiplied by their scales, and the output's amax is recorded") {
    for (const auto& [left, right] : {std::pair{dtype::e4m3, dtype::e4m3}, {dtype::e4m3, dtype::e5m2}}) {
      for (const dtype out : {dtype::fp32, dtype::bf16, dtype::fp16}) {
        for (const auto how : {amp::nn::accumulation::fast, amp::nn::accumulation::split}) {
          Matrix a(20, 200, left), b(30, 200, right), y(20, 30, out);
          a.random(1, 200.f), b.random(2, 200.f);
          std::atomic<float> amax{0.f};
          const float inverse_a = 1.f / 128, inverse_b = 1.f / 64;
          amp::nn::gemm(best(), y.view(), amp::nn::plain(a.view(), inverse_a), amp::nn::transposed(b.view(), inverse_b),
                        amp::nn::chain(amp::nn::record_amax{&amax}), amp::nn::blocked{}, {.accumulate = how});
          double largest = 0, off = 0;
          for (std::int64_t i = 0; i < 20; ++i) {
            for (std::int64_t j = 0; j < 30; ++j) {
              const Product p = product(a, false, b, true, i, j);
              const double want = p.value / (128 * 64);
              largest = std::max(largest, std::abs(want));
              off = std::max(off, std::abs(y.at(i, j) - want) /
                                      (1e-6 * p.magnitude / (128 * 64) + test_nn::rounding(out) * std::abs(want)));
            }
          }
          CHECK(off < 1);
          CHECK(static_cast<double>(amax.load()) == doctest::Approx(largest).epsilon(1e-5));
        }
      }
    }
  }

  TEST_CASE("split accumulation is the closer one on long sums of equal sign") {
    Matrix a(1, 65536), b(1, 65536), fast(1, 1), split(1, 1);
    a.random(1, 0.5f, 0.6f), b.random(2, 0.5f, 0.6f);
    const auto run = [&](Matrix& y, amp::nn::accumulation how) {
      amp::nn::gemm(best(), y.view(), amp::nn::plain(a.view()), amp::nn::transposed(b.view()), amp::nn::epilogue<>{},
                    amp::nn::blocked{}, {.accumulate = how});
      const Product want = product(a, false, b, true, 0, 0);
      return std::abs(y[0] - want.value) / want.value;
    };
    CHECK(run(fast, amp::nn::accumulation::fast) < 2e-5);
    CHECK(run(split, amp::nn::accumulation::split) < 2e-5);
    CHECK(fast[0] != split[0]);
  }

  TEST_CASE("an infinity or NaN reaches its own row and column alone, in spite of padding") {
    Matrix a(14, 37), b(37, 35), y(14, 35);
    a.random(1), b.random(2);
    a.set(13, 36, std::numeric_limits<float>::infinity());
    amp::nn::gemm(best(), y.view(), amp::nn::plain(a.view()), amp::nn::plain(b.view()));
    for (std::int64_t i = 0; i < 14; ++i) {
      for (std::int64_t j = 0; j < 35; ++j) CHECK(std::isfinite(y.at(i, j)) == (i != 13));
    }
  }

  TEST_CASE("one workspace serves calls of any size, and more threads than it has buffers") {
    amp::nn::Workspace workspace;
    workspace.reserve(1, 16);
    for (const std::int64_t m : {5, 700, 40}) {
      Matrix a(m, 30), b(30, 50), y(m, 50), expected(m, 50);
      a.random(1), b.random(2);
      amp::nn::gemm(amp::exec::any(amp::exec::threads(4)), y.view(), amp::nn::plain(a.view()), amp::nn::plain(b.view()),
                    amp::nn::epilogue<>{}, amp::nn::blocked{}, {.workspace = &workspace});
      amp::nn::gemm(best(), expected.view(), amp::nn::plain(a.view()), amp::nn::plain(b.view()));
      CHECK(y.bytes() == expected.bytes());
    }
  }

  TEST_CASE("a backend is used where it takes the problem, else our own kernel") {
    struct Seven {
      bool takes;
      bool multiply(const amp::nn::gemm_problem&, const amp::matrix_view& c) const {
        for (std::int64_t i = 0; takes && i < c.rows * c.columns; ++i) static_cast<float*>(c.data)[i] = 7.f;
        return takes;
      }
    };
    Matrix a(2, 3), b(3, 4), y(2, 4), own(2, 4);
    a.random(1), b.random(2);
    const auto twice = amp::nn::chain(amp::nn::scaled{2.f});
    amp::nn::gemm(best(), y.view(), amp::nn::plain(a.view()), amp::nn::plain(b.view()), twice, Seven{true});
    CHECK(y.at(1, 3) == 14);
    amp::nn::gemm(best(), y.view(), amp::nn::plain(a.view()), amp::nn::plain(b.view()), twice, Seven{false});
    amp::nn::gemm(best(), own.view(), amp::nn::plain(a.view()), amp::nn::plain(b.view()), twice);
    CHECK(y.bytes() == own.bytes());
  }

  TEST_CASE("factors that do not fit are refused with their sizes") {
    Matrix a(2, 3), b(4, 5), y(2, 5);
    CHECK_THROWS_WITH_AS(amp::nn::gemm(best(), y.view(), amp::nn::plain(a.view()), amp::nn::plain(b.view())),
                         doctest::Contains("a has 3 columns, but b has 4 rows"), amp::error);
  }
}
