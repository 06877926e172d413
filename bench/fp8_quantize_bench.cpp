/// Quantising a bf16 matrix of 1024 columns by each recipe.
#include <benchmark/benchmark.h>

#include <amp/nn/fp8_delayed.hpp>
#include <amp/nn/fp8_quantize.hpp>
#include <cstdint>
#include <string>

#include "tensors.hpp"

namespace {

namespace fp8 = amp::fp8;

template <class Quantize>
void run(benchmark::State& state, const Quantize& quantize) {
  const bench::Tensors data({bench::between}, amp::dtype::bf16, 0.3f);
  const amp::matrix_view x = amp::as_matrix(data.list()[0], 1024);
  for (auto _ : state) {
    const auto q = quantize(x);
    benchmark::DoNotOptimize(q.codes.data());
  }
  state.SetItemsProcessed(state.iterations() * bench::between);
  state.SetBytesProcessed(state.iterations() * bench::between * 3);
}

template <class Recipe, fp8::operand Role>
void add(const char* what) {
  for (const auto target : bench::targets()) {
    benchmark::RegisterBenchmark(
        bench::case_name(what, target, amp::dtype::bf16, bench::between).c_str(), [target](benchmark::State& state) {
          const amp::exec::vectorized executor{.target = target};
          run(state, [&](const auto& x) { return fp8::quantize<Role>(executor, Recipe{}, x); });
        });
  }
}

const int registered = [] {
  for (const auto target : bench::targets()) {
    benchmark::RegisterBenchmark(bench::case_name("quantize_delayed", target, amp::dtype::bf16, bench::between).c_str(),
                                 [target](benchmark::State& state) {
                                   const amp::exec::vectorized executor{.target = target};
                                   fp8::DelayedScale scale(fp8::delayed_scaling<>{}, 448.f);
                                   run(state,
                                       [&](const auto& x) { return fp8::quantize<amp::e4m3>(executor, scale, x); });
                                 });
  }
  add<fp8::current_scaling<>, fp8::operand::activation>("quantize_current");
  add<fp8::block_scaling<>, fp8::operand::activation>("quantize_block");
  add<fp8::mx_scaling<>, fp8::operand::activation>("quantize_mxfp8");
  add<fp8::nvfp4_scaling, fp8::operand::gradient>("quantize_nvfp4_stochastic");
  return 0;
}();

}  // namespace
