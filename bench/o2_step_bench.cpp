/// The whole O2 step in bf16: check, norm, clip, AdamW on fp32 masters, write-back. 30 bytes of traffic an element.
#include <benchmark/benchmark.h>

#if defined(AMP_BENCH_OPENMP)
#include <amp/adapters/openmp.hpp>
#endif

#include "o2_step.hpp"

namespace {

amp::exec::any executor(int threads) {
  if (threads == 1) return amp::exec::vectorized{};
#if defined(AMP_BENCH_OPENMP)
  if (threads < 0) return amp::exec::openmp{.threads = -threads};
#endif
  return amp::exec::threads(threads);
}

void o2_step_list(benchmark::State& state, const std::vector<std::int64_t>& sizes, int threads) {
  o2_step::Job job(sizes, executor(threads));
  job.step();  // makes the moments
  for (auto _ : state) job.step();
  state.SetBytesProcessed(state.iterations() * job.elements() * 30);
  state.SetItemsProcessed(state.iterations() * job.elements());
}

/// State in other forms than fp32.
void o2_step_state(benchmark::State& state, const std::string& form) {
  o2_step::Job job(o2_step::big(), executor(1), o2_step::storage(form));
  job.step();
  for (auto _ : state) job.step();
  state.SetItemsProcessed(state.iterations() * job.elements());
}

}  // namespace

BENCHMARK_CAPTURE(o2_step_list, vectorized / big, o2_step::big(), 1)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(o2_step_list, threads2 / big, o2_step::big(), 2)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(o2_step_list, vectorized / small, o2_step::small(), 1)->Unit(benchmark::kMicrosecond)->UseRealTime();
BENCHMARK_CAPTURE(o2_step_list, threads2 / small, o2_step::small(), 2)->Unit(benchmark::kMicrosecond)->UseRealTime();
#if defined(AMP_BENCH_OPENMP)
BENCHMARK_CAPTURE(o2_step_list, openmp2 / big, o2_step::big(), -2)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(o2_step_list, openmp2 / small, o2_step::small(), -2)->Unit(benchmark::kMicrosecond)->UseRealTime();
#endif
BENCHMARK_CAPTURE(o2_step_state, remainder, "remainder")->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(o2_step_state, remainder_bf16, "remainder_bf16")->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(o2_step_state, remainder_e4m3, "remainder_e4m3")->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(o2_step_state, remainder_e4m3_blocks, "remainder_e4m3_blocks")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(o2_step_state, kahan_bf16, "kahan_bf16")->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(o2_step_state, stochastic_bf16, "stochastic_bf16")->Unit(benchmark::kMillisecond)->UseRealTime();
