/// Softmax by rows of 512.
#include <benchmark/benchmark.h>

#include <amp/nn/softmax.hpp>
#include <cstdint>

#include "tensors.hpp"

namespace {

constexpr std::int64_t columns = 512;

void softmax(benchmark::State& state, amp::simd::target target, amp::dtype type, std::int64_t n) {
  const bench::Tensors x({n}, type, 0.3f);
  const bench::Tensors y({n}, type, 0.f);
  const amp::exec::vectorized executor{.target = target};
  for (auto _ : state) {
    amp::nn::softmax(executor, amp::as_matrix(y.list()[0], columns), amp::as_matrix(x.list()[0], columns));
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * n);
  state.SetBytesProcessed(state.iterations() * n * 2 * static_cast<std::int64_t>(amp::size_of(type)));
}

const int registered = [] {
  for (const auto target : bench::targets()) {
    for (const auto type : {amp::dtype::fp32, amp::dtype::bf16}) {
      benchmark::RegisterBenchmark(bench::case_name("softmax", target, type, bench::between).c_str(), softmax, target,
                                   type, bench::between);
    }
  }
  return 0;
}();

}  // namespace
