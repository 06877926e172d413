/// Cross entropy with label smoothing over rows of 1024 classes, forward and backward.
#include <benchmark/benchmark.h>

#include <amp/nn/cross_entropy.hpp>
#include <cstdint>
#include <vector>

#include "tensors.hpp"

namespace {

constexpr std::int64_t classes = 1024;

void cross_entropy(benchmark::State& state, amp::simd::target target, amp::dtype type, bool backward) {
  const std::int64_t rows = bench::between / classes, n = rows * classes;
  const bench::Tensors data({n, n}, type, 0.3f);
  const auto matrix = [&](std::size_t k) { return amp::as_matrix(data.list()[k], classes); };
  std::vector<std::int64_t> labels;
  for (std::int64_t r = 0; r < rows; ++r) labels.push_back(r * 37 % classes);
  std::vector<float> loss(labels.size()), log_sum(labels.size()), dloss(labels.size(), 1.f);
  const amp::nn::cross_entropy_options options{.smoothing = 0.1f};
  const amp::exec::vectorized executor{.target = target};
  amp::nn::cross_entropy(executor, loss, log_sum, matrix(0), labels, options);
  for (auto _ : state) {
    if (backward) {
      amp::nn::cross_entropy_backward(executor, matrix(1), dloss, matrix(0), labels, log_sum, options);
    } else {
      amp::nn::cross_entropy(executor, loss, log_sum, matrix(0), labels, options);
    }
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * n);
  state.SetBytesProcessed(state.iterations() * n * static_cast<std::int64_t>(amp::size_of(type)) * (backward ? 2 : 1));
}

const int registered = [] {
  for (const auto target : bench::targets()) {
    for (const auto type : {amp::dtype::fp32, amp::dtype::bf16}) {
      for (const bool backward : {false, true}) {
        const auto what = backward ? "cross_entropy_backward" : "cross_entropy";
        benchmark::RegisterBenchmark(bench::case_name(what, target, type, bench::between).c_str(), cross_entropy,
                                     target, type, backward);
      }
    }
  }
  return 0;
}();

}  // namespace
