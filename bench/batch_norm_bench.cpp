/// Batch norm of 64 channels, 256 elements each per sample: statistics with the elementwise pass, and the backward
/// pass.
#include <benchmark/benchmark.h>

#include <amp/nn/batch_norm.hpp>
#include <cstdint>
#include <string>

#include "tensors.hpp"

namespace {

constexpr std::int64_t channels = 64, inner = 256;

void batch_norm(benchmark::State& state, amp::simd::target target, amp::dtype type, bool last, bool backward) {
  const std::int64_t n = bench::between;
  const bench::Tensors data({n, n, n}, type, 0.01f);
  const auto lines = [&](std::size_t k) { return amp::as_matrix(data.list()[k], last ? channels : inner); };
  const amp::nn::channel_view x{lines(0), channels, last};
  const amp::exec::vectorized executor{.target = target};
  auto stats = amp::nn::batch_statistics(executor, x);
  for (auto _ : state) {
    if (backward) {
      const auto sums = amp::nn::batch_norm_sums(executor, lines(1), x, stats);
      amp::nn::batch_norm_backward(executor, {.dx = lines(2)}, lines(1), x, stats, sums, sums);
    } else {
      stats = amp::nn::batch_statistics(executor, x);
      amp::nn::batch_norm(executor, lines(2), x, stats);
    }
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * n);
  // Two passes over x; backward: two over x and dy.
  state.SetBytesProcessed(state.iterations() * n * static_cast<std::int64_t>(amp::size_of(type)) * (backward ? 5 : 3));
}

const int registered = [] {
  for (const auto target : bench::targets()) {
    for (const auto type : {amp::dtype::fp32, amp::dtype::bf16}) {
      for (const bool last : {false, true}) {
        for (const bool backward : {false, true}) {
          const std::string what = std::string(last ? "batch_norm_last" : "batch_norm") + (backward ? "_backward" : "");
          benchmark::RegisterBenchmark(bench::case_name(what, target, type, bench::between).c_str(), batch_norm, target,
                                       type, last, backward);
        }
      }
    }
  }
  return 0;
}();

}  // namespace
