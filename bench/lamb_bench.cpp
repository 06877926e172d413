/// Whole steps of LAMB, which looks at tensors: bf16 weights and gradients with fp32 masters, 64 tensors.
#include <benchmark/benchmark.h>

#include <amp/master_weights.hpp>
#include <amp/optim/lamb.hpp>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tensors.hpp"

namespace {

constexpr std::int64_t tensors = 64;

void lamb(benchmark::State& state, amp::simd::target target) {
  const std::vector<std::int64_t> sizes(tensors, bench::between / tensors);
  const bench::Tensors weights(sizes, amp::dtype::bf16, 0.1f), grads(sizes, amp::dtype::bf16, 1e-4f);
  std::vector<amp::Param> params;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto n = static_cast<std::size_t>(sizes[i]);
    auto* const w = static_cast<amp::bfloat16*>(weights.list()[i].data);
    auto* const g = static_cast<amp::bfloat16*>(grads.list()[i].data);
    std::span value(w, n), grad(g, n);
    params.push_back(amp::make_param(std::to_string(i), value, grad));
  }
  std::vector<amp::GroupSpec<amp::Lamb>> groups{
      {amp::Lamb{.lr = 1e-6}, std::make_shared<amp::FixedParams>(std::move(params)), {}}};
  amp::MasterWeights<amp::Lamb> masters(std::move(groups), true, amp::exec::vectorized{.target = target});
  for (auto _ : state) {
    masters.step(1.f, 1.f);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * bench::between);
}

const int registered = [] {
  for (const auto target : bench::targets()) {
    benchmark::RegisterBenchmark(bench::case_name("lamb", target, amp::dtype::bf16, bench::between).c_str(), lamb,
                                 target);
  }
  return 0;
}();

}  // namespace
