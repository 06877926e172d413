/// AdamW on fp32 masters with low gradients and a low copy, in one pass: one tensor, 400 small ones, and the scratch
/// path.
#include <benchmark/benchmark.h>

#include <amp/fn/adam.hpp>
#include <amp/multi_tensor_apply.hpp>
#include <cstdint>
#include <vector>

#include "tensors.hpp"

namespace {

void adam(benchmark::State& state, amp::simd::target target, amp::dtype type, const std::vector<std::int64_t>& sizes,
          bool fused) {
  const bench::Tensors w(sizes, amp::dtype::fp32, 0.1f);
  const bench::Tensors m(sizes, amp::dtype::fp32, 0.f);
  const bench::Tensors v(sizes, amp::dtype::fp32, 0.f);
  const bench::Tensors g(sizes, type, 1e-4f);
  const bench::Tensors copy(sizes, type, 0.f);
  const amp::fn::AdamW step{.lr = 1e-6f,
                            .beta1 = 0.9f,
                            .one_minus_beta1 = 0.1f,
                            .beta2 = 0.999f,
                            .one_minus_beta2 = 0.001f,
                            .eps = 1e-8f,
                            .decay = 0.01f};
  const amp::exec::vectorized executor{.target = target, .fused = fused};
  for (auto _ : state) {
    amp::multi_tensor_apply(executor, step, amp::lane::inout_with_copy(w.list(), copy.list()),
                            amp::lane::inout(m.list()), amp::lane::inout(v.list()), amp::lane::in(g.list(), 0.5f));
    benchmark::ClobberMemory();
  }
  const std::int64_t n = amp::total_size(w.list());
  state.SetItemsProcessed(state.iterations() * n);
  // w, m, v read and written, g read, copy written.
  state.SetBytesProcessed(state.iterations() * n * static_cast<std::int64_t>(6 * 4 + 2 * amp::size_of(type)));
}

const int registered = [] {
  const std::vector<std::int64_t> small(400, 2000);
  for (const auto target : bench::targets()) {
    for (const auto type : {amp::dtype::fp32, amp::dtype::fp16, amp::dtype::bf16}) {
      for (const auto n : {bench::in_cache, bench::between, bench::in_memory}) {
        benchmark::RegisterBenchmark(bench::case_name("adam", target, type, n).c_str(), adam, target, type,
                                     std::vector<std::int64_t>{n}, true);
      }
      benchmark::RegisterBenchmark(bench::case_name("adam_scratch", target, type, bench::between).c_str(), adam, target,
                                   type, std::vector<std::int64_t>{bench::between}, false);
      benchmark::RegisterBenchmark(bench::case_name("adam_400", target, type, 400 * 2000).c_str(), adam, target, type,
                                   small, true);
    }
  }
  return 0;
}();

}  // namespace
