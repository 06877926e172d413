/// LayerNorm by rows of 768, forward and backward.
#include <benchmark/benchmark.h>

#include <amp/nn/layer_norm.hpp>
#include <cstdint>
#include <vector>

#include "tensors.hpp"

namespace {

constexpr std::int64_t columns = 768;

void layer_norm(benchmark::State& state, amp::simd::target target, amp::dtype type, std::int64_t n, bool backward) {
  const std::int64_t rows = n / columns, size = rows * columns;
  const bench::Tensors data({size, size, size}, type, 0.01f);
  const bench::Tensors weights({columns, columns, columns, columns}, amp::dtype::fp32, 0.1f);
  const auto matrix = [&](std::size_t k) { return amp::as_matrix(data.list()[k], columns); };
  const auto& w = weights.list();
  std::vector<float> mean(static_cast<std::size_t>(rows)), rstd(mean.size());
  const amp::nn::norm_saved saved{mean.data(), rstd.data()};
  const amp::exec::vectorized executor{.target = target};
  amp::nn::layer_norm(executor, matrix(1), matrix(0), w[0], w[1], 1e-5f, saved);
  for (auto _ : state) {
    if (backward) {
      amp::nn::layer_norm_backward(executor, {matrix(2), w[2], w[3]}, matrix(1), matrix(0), w[0], saved);
    } else {
      amp::nn::layer_norm(executor, matrix(1), matrix(0), w[0], w[1], 1e-5f, saved);
    }
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * size);
  state.SetBytesProcessed(state.iterations() * size * static_cast<std::int64_t>(amp::size_of(type)) *
                          (backward ? 3 : 2));
}

const int registered = [] {
  for (const auto target : bench::targets()) {
    for (const auto type : {amp::dtype::fp32, amp::dtype::bf16}) {
      for (const bool backward : {false, true}) {
        const auto what = backward ? "layer_norm_backward" : "layer_norm";
        benchmark::RegisterBenchmark(bench::case_name(what, target, type, bench::between).c_str(), layer_norm, target,
                                     type, bench::between, backward);
      }
    }
  }
  return 0;
}();

}  // namespace
