/// nn::Blas: matrix products by a CBLAS library (OpenBLAS, BLIS, MKL, the reference one). Opt-in: link amp::blas.
#pragma once
#include <cblas.h>

#include <algorithm>
#include <amp/apply/exec.hpp>
#include <amp/nn/epilogue.hpp>
#include <amp/nn/gemm.hpp>
#include <amp/tensor/matrix.hpp>
#include <cstdint>
#include <limits>
#include <memory>

namespace amp::nn {

/// A GemmBackend over cblas_sgemm: fp32 operands in place, others through fp32 copies; the library's own threads.
/// Bits are the library's: equal to no other backend's.
struct Blas {
  bool multiply(const gemm_problem& p, const matrix_view& c) const {
    constexpr std::int64_t limit = std::numeric_limits<int>::max();
    for (const std::int64_t size : {p.m, p.n, p.k, p.a.matrix.stride, p.b.matrix.stride, c.stride}) {
      if (size > limit) return false;
    }
    const Factor a(p.a.matrix), b(p.b.matrix);
    const auto turn = [](const operand& o) { return o.transposed ? CblasTrans : CblasNoTrans; };
    cblas_sgemm(CblasRowMajor, turn(p.a), turn(p.b), static_cast<int>(p.m), static_cast<int>(p.n),
                static_cast<int>(p.k), p.a.scale * p.b.scale, a.data, a.stride, b.data, b.stride, 0.f,
                static_cast<float*>(c.data), static_cast<int>(c.stride));
    return true;
  }

 private:
  /// A matrix as floats: in place, or a dense copy.
  struct Factor {
    std::unique_ptr<float[]> copy;
    const float* data;
    int stride;

    explicit Factor(const matrix_view& m)
        : data(static_cast<const float*>(m.data)),
          stride(static_cast<int>(std::max<std::int64_t>(1, std::max(m.stride, m.columns)))) {
      if (m.type == dtype::fp32) return;
      copy.reset(new float[static_cast<std::size_t>(m.rows * m.columns)]);
      apply_epilogue(exec::vectorized{}, as_matrix(copy.get(), m.rows, m.columns), m, epilogue<>{});
      data = copy.get();
      stride = static_cast<int>(m.columns);
    }
  };
};

}  // namespace amp::nn
