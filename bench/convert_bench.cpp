/// fp32 to a low format and back through multi_tensor_apply.
#include <benchmark/benchmark.h>

#include <amp/fn/copy.hpp>
#include <amp/multi_tensor_apply.hpp>
#include <cstdint>
#include <string>

#include "tensors.hpp"

namespace {

void convert(benchmark::State& state, amp::simd::target target, amp::dtype from, amp::dtype to, std::int64_t n) {
  const bench::Tensors in({n}, from, 0.01f);
  const bench::Tensors out({n}, to, 0.f);
  const amp::exec::vectorized executor{.target = target};
  for (auto _ : state) {
    amp::multi_tensor_apply(executor, amp::fn::Copy{}, amp::lane::out(out.list()), amp::lane::in(in.list()));
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * n);
  state.SetBytesProcessed(state.iterations() * n * static_cast<std::int64_t>(amp::size_of(from) + amp::size_of(to)));
}

const int registered = [] {
  for (const auto target : bench::targets()) {
    for (const auto type : {amp::dtype::fp16, amp::dtype::bf16}) {
      for (const auto n : {bench::in_cache, bench::in_memory}) {
        benchmark::RegisterBenchmark(bench::case_name("convert_to", target, type, n).c_str(), convert, target,
                                     amp::dtype::fp32, type, n);
        benchmark::RegisterBenchmark(bench::case_name("convert_from", target, type, n).c_str(), convert, target, type,
                                     amp::dtype::fp32, n);
      }
    }
  }
  return 0;
}();

}  // namespace
