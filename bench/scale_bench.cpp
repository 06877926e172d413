/// Unscaling gradients: low in, fp32 out, with the check for non-finite inputs.
#include <benchmark/benchmark.h>

#include <amp/fn/scale.hpp>
#include <cstdint>

#include "tensors.hpp"

namespace {

void scale(benchmark::State& state, amp::simd::target target, amp::dtype type, std::int64_t n) {
  const bench::Tensors in({n}, type, 0.01f);
  const bench::Tensors out({n}, amp::dtype::fp32, 0.f);
  const amp::exec::vectorized executor{.target = target};
  amp::nonfinite_report report;
  for (auto _ : state) {
    amp::fn::scale(executor, out.list(), in.list(), 0.5f, report);
    benchmark::ClobberMemory();
  }
  if (report.found()) state.SkipWithError("non-finite inputs");
  state.SetItemsProcessed(state.iterations() * n);
  state.SetBytesProcessed(state.iterations() * n * static_cast<std::int64_t>(amp::size_of(type) + 4));
}

const int registered = [] {
  for (const auto target : bench::targets()) {
    for (const auto type : {amp::dtype::fp32, amp::dtype::fp16, amp::dtype::bf16}) {
      for (const auto n : {bench::in_cache, bench::in_memory}) {
        benchmark::RegisterBenchmark(bench::case_name("scale", target, type, n).c_str(), scale, target, type, n);
      }
    }
  }
  return 0;
}();

}  // namespace
