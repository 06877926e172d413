/// nn::OneDnn: matrix products by oneDNN. Opt-in: link amp::onednn, and never in a process that also loads LibTorch,
/// which carries a oneDNN of its own.
#pragma once
#include <amp/nn/gemm.hpp>
#include <amp/tensor/matrix.hpp>
#include <cstdint>
#include <dnnl.hpp>
#include <optional>

namespace amp::nn {

/// A GemmBackend over oneDNN's matmul: both operands fp32 or both bf16, unscaled, result in fp32. What the library or
/// the processor does not offer is left to our own kernel. Bits are the library's.
class OneDnn {
 public:
  OneDnn() : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}

  bool multiply(const gemm_problem& p, const matrix_view& c) const {
    const auto type = type_of(p.a.matrix.type);
    if (!type || p.a.matrix.type != p.b.matrix.type || p.a.scale * p.b.scale != 1.f) return false;
    try {
      const auto a = describe(p.a, *type), b = describe(p.b, *type);
      const auto out = describe(plain(c), dnnl::memory::data_type::f32);
#if DNNL_VERSION_MAJOR >= 3
      const dnnl::matmul product(dnnl::matmul::primitive_desc(engine_, a, b, out));
#else
      const dnnl::matmul product(dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, out), engine_));
#endif
      dnnl::stream stream = stream_;
      product.execute(stream, {{DNNL_ARG_SRC, dnnl::memory(a, engine_, p.a.matrix.data)},
                               {DNNL_ARG_WEIGHTS, dnnl::memory(b, engine_, p.b.matrix.data)},
                               {DNNL_ARG_DST, dnnl::memory(out, engine_, c.data)}});
      stream.wait();
      return true;
    } catch (const dnnl::error&) {  // such as bf16 on a processor without AVX-512
      return false;
    }
  }

 private:
  static std::optional<dnnl::memory::data_type> type_of(dtype type) {
    if (type == dtype::fp32) return dnnl::memory::data_type::f32;
    if (type == dtype::bf16) return dnnl::memory::data_type::bf16;
    return std::nullopt;
  }
  static dnnl::memory::desc describe(const operand& o, dnnl::memory::data_type type) {
    const dnnl::memory::dim across = o.matrix.stride;
    const dnnl::memory::dims strides = o.transposed ? dnnl::memory::dims{1, across} : dnnl::memory::dims{across, 1};
    return {{o.rows(), o.columns()}, type, strides};
  }

  dnnl::engine engine_;
  dnnl::stream stream_;
};

}  // namespace amp::nn
