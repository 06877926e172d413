/// A linear layer with bias and GELU, 512 rows of 768 to 3072: our own kernel, and a CBLAS library where there is one.
/// Items are floating-point operations of the product.
#include <benchmark/benchmark.h>

#include <amp/nn/linear.hpp>
#include <cstdint>
#include <string>

#include "tensors.hpp"

#if defined(AMP_BENCH_BLAS)
#include <amp/adapters/blas.hpp>
#endif

namespace {

constexpr std::int64_t rows = 512, in = 768, out = 3072;

template <class Backend>
void linear(benchmark::State& state, amp::simd::target target, amp::dtype type, const Backend& backend) {
  const bench::Tensors data({rows * in, out * in, out, rows * out}, type, 0.01f);
  const auto& t = data.list();
  const amp::exec::vectorized executor{.target = target};
  amp::nn::Workspace workspace;
  for (auto _ : state) {
    amp::nn::linear(executor, amp::as_matrix(t[3], out), amp::as_matrix(t[0], in), amp::as_matrix(t[1], in), t[2],
                    amp::nn::gelu_erf{}, {}, backend, {.workspace = &workspace});
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * 2 * rows * in * out);
}

const int registered = [] {
  for (const auto type : {amp::dtype::fp32, amp::dtype::bf16}) {
    for (const auto target : bench::targets()) {
      if (target == amp::simd::target::base) continue;  // emulates fma: seconds a call
      benchmark::RegisterBenchmark(bench::case_name("gemm", target, type, rows).c_str(), linear<amp::nn::blocked>,
                                   target, type, amp::nn::blocked{});
    }
#if defined(AMP_BENCH_BLAS)
    benchmark::RegisterBenchmark(("gemm/cblas/" + std::string(amp::name(type)) + "/n:" + std::to_string(rows)).c_str(),
                                 linear<amp::nn::Blas>, amp::simd::target::best, type, amp::nn::Blas{});
#endif
  }
  return 0;
}();

}  // namespace
