#include <doctest/doctest.h>

#include <amp/nn/rows.hpp>
#include <bit>
#include <cmath>
#include <vector>

#include "nn/support.hpp"

using amp::dtype;
using test_nn::Matrix;

namespace {

/// The sum of squares and the sum of a row, as a layer takes them.
struct sums_kernel {
  struct args {
    amp::matrix_view m;
    double* out;  ///< [rows][2]
  };
  template <class V>
  AMP_INLINE static void run(const args& a, std::int64_t r) {
    amp::nn::RowReader<V> x(a.m);
    x.row(r);
    double total[2] = {};
    amp::nn::for_each_segment(a.m.columns, [&](std::int64_t begin, std::int64_t n) AMP_LAMBDA {
      const float* from = x.at(begin, n);
      amp::nn::lane_sums<V>(
          n,
          [&](std::int64_t i, auto part, V(&out)[2]) AMP_LAMBDA {
            const V v = amp::simd::load<V>(from + i, part);
            out[0] = v * v;
            out[1] = v + V(1.f);  // not 0 where the vector ends beyond the row
          },
          total);
    });
    a.out[2 * r] = total[0], a.out[2 * r + 1] = total[1];
  }
};

/// The definition of lane_sums, written out: 64 fp32 lanes, a halving tree in double, segments of 2,048.
double defined_sum(const Matrix& m, std::int64_t r, bool squares) {
  double total = 0;
  for (std::int64_t begin = 0; begin < m.columns(); begin += 2048) {
    float lane[64] = {};
    for (std::int64_t i = begin; i < std::min(begin + 2048, m.columns()); ++i) {
      const auto x = static_cast<float>(m.at(r, i));
      lane[(i - begin) % 64] += squares ? x * x : x + 1.f;
    }
    double tree[64];
    for (int k = 0; k < 64; ++k) tree[k] = static_cast<double>(lane[k]);
    for (int half = 32; half > 0; half /= 2) {
      for (int k = 0; k < half; ++k) tree[k] += tree[k + half];
    }
    total += tree[0];
  }
  return total;
}

}  // namespace

TEST_SUITE("nn/rows") {
  TEST_CASE("sums are the defined ones bit for bit on every executor, for every rest of 64 and any format") {
    for (const dtype type : {dtype::fp32, dtype::bf16, dtype::e4m3}) {
      for (const std::int64_t columns : {1, 2, 15, 16, 17, 63, 64, 65, 100, 127, 2047, 2048, 2049, 4133}) {
        Matrix m(2, columns, type, 1, 1);
        m.random(3, 4.f);
        for (const auto& executor : test_nn::executors()) {
          std::vector<double> out(4);
          amp::nn::run_items<sums_kernel>(executor.run, 2, 2 * columns, sums_kernel::args{m.view(), out.data()});
          CAPTURE(executor.name);
          CAPTURE(columns);
          for (std::int64_t r = 0; r < 2; ++r) {
            CHECK(out[size_t(2 * r)] == defined_sum(m, r, true));
            CHECK(out[size_t(2 * r + 1)] == defined_sum(m, r, false));
          }
        }
      }
    }
  }

  TEST_CASE("blocks of rows cover all rows once, sums over rows in at most 64 blocks") {
    for (const std::int64_t rows : {0, 1, 15, 16, 17, 1000, 1024, 1025, 70001}) {
      for (const auto& blocks : {amp::nn::summed_blocks(rows), amp::nn::independent_blocks(rows, 768)}) {
        std::int64_t next = 0;
        for (std::int64_t b = 0; b < blocks.count(); ++b) {
          CHECK(blocks.begin(b) == next);
          CHECK(blocks.end(b) > blocks.begin(b));
          next = blocks.end(b);
        }
        CHECK(next == rows);
      }
      CHECK(amp::nn::summed_blocks(rows).count() <= 64);
    }
  }

  TEST_CASE("a parameter is read in place if it is fp32, else decoded, and has a value where there is none") {
    Matrix wide(1, 3000), low(1, 3000, dtype::fp16);
    wide.random(1), low.random(2);
    CHECK(amp::nn::Floats(wide.vector(), 3000, 0.f).data() == wide.view().data);
    const amp::nn::Floats copy(low.vector(), 3000, 0.f), none({}, 3, 2.5f);
    bool same = true;
    for (std::int64_t i = 0; i < 3000; ++i) same = same && static_cast<double>(copy.data()[i]) == low[i];
    CHECK(same);
    CHECK((none.data()[0] == 2.5f && none.data()[2] == 2.5f));
  }
}
