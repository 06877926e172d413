/// SGD with momentum and Adagrad: fp32 weights and state, low gradients, a low copy of the weights, in one pass.
#include <benchmark/benchmark.h>

#include <amp/fn/adagrad.hpp>
#include <amp/fn/sgd.hpp>
#include <amp/multi_tensor_apply.hpp>
#include <cstdint>

#include "tensors.hpp"

namespace {

template <class Functor>
void step(benchmark::State& state, amp::simd::target target, amp::dtype type, const Functor& functor) {
  const std::int64_t n = bench::between;
  const bench::Tensors w({n}, amp::dtype::fp32, 0.1f);
  const bench::Tensors b({n}, amp::dtype::fp32, 0.f);
  const bench::Tensors g({n}, type, 1e-4f);
  const bench::Tensors copy({n}, type, 0.f);
  const amp::exec::vectorized executor{.target = target};
  for (auto _ : state) {
    amp::multi_tensor_apply(executor, functor, amp::lane::inout_with_copy(w.list(), copy.list()),
                            amp::lane::inout(b.list()), amp::lane::in(g.list(), 0.5f));
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * n);
  state.SetBytesProcessed(state.iterations() * n * static_cast<std::int64_t>(4 * 4 + 2 * amp::size_of(type)));
}

template <class Functor>
void add(const char* what, const Functor& functor) {
  for (const auto target : bench::targets()) {
    for (const auto type : {amp::dtype::fp16, amp::dtype::bf16}) {
      benchmark::RegisterBenchmark(bench::case_name(what, target, type, bench::between).c_str(), step<Functor>, target,
                                   type, functor);
    }
  }
}

const int registered = [] {
  add("sgd", amp::fn::Sgd{.lr = 1e-6f, .momentum = 0.9f, .decay = 0.01f});
  add("adagrad", amp::fn::Adagrad{.lr = 1e-6f, .eps = 1e-10f, .decay = 0.01f, .decoupled = false});
  return 0;
}();

}  // namespace
