/// Norm and non-finite check of gradients in one pass: one large tensor, and 400 small ones in one call.
#include <benchmark/benchmark.h>

#include <amp/fn/l2norm.hpp>
#include <cstdint>
#include <vector>

#include "tensors.hpp"

namespace {

void l2norm(benchmark::State& state, amp::simd::target target, amp::dtype type,
            const std::vector<std::int64_t>& sizes) {
  const bench::Tensors in(sizes, type, 0.01f);
  const amp::exec::vectorized executor{.target = target};
  for (auto _ : state) {
    const auto norm = amp::fn::l2norm(executor, amp::lane::in(in.list(), 0.5f));
    benchmark::DoNotOptimize(norm.total);
  }
  const std::int64_t n = amp::total_size(in.list());
  state.SetItemsProcessed(state.iterations() * n);
  state.SetBytesProcessed(state.iterations() * n * static_cast<std::int64_t>(amp::size_of(type)));
}

const int registered = [] {
  for (const auto target : bench::targets()) {
    for (const auto type : {amp::dtype::fp32, amp::dtype::fp16, amp::dtype::bf16}) {
      for (const auto n : {bench::in_cache, bench::in_memory}) {
        benchmark::RegisterBenchmark(bench::case_name("l2norm", target, type, n).c_str(), l2norm, target, type,
                                     std::vector<std::int64_t>{n});
      }
      benchmark::RegisterBenchmark(bench::case_name("l2norm_400", target, type, 400 * 2000).c_str(), l2norm, target,
                                   type, std::vector<std::int64_t>(400, 2000));
    }
  }
  return 0;
}();

}  // namespace
