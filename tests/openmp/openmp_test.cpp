#include <doctest/doctest.h>

#include <amp/adapters/openmp.hpp>
#include <amp/fn/axpby.hpp>
#include <amp/fn/l2norm.hpp>
#include <amp/multi_tensor_apply.hpp>
#include <cstdint>
#include <vector>

#include "apply/tensors.hpp"

using amp::dtype;
using test_apply::Tensors;
namespace exec = amp::exec;

TEST_SUITE("openmp/openmp") {
  TEST_CASE("openmp gives the bits of the serial executors for any thread count and chunk size") {
    const auto sizes = test_apply::awkward_sizes();
    Tensors x(sizes, {dtype::bf16, dtype::fp32});
    Tensors y(sizes, {dtype::fp16});
    x.randomize(1, 1.f);
    y.randomize(2, 1.f);
    const auto run = [&](const auto& executor) {
      Tensors out(sizes, {dtype::fp32, dtype::bf16});
      amp::nonfinite_report report;
      amp::fn::axpby(executor, out.list(), 0.1f, x.list(), 0.7f, y.list(), report);
      CHECK(report.flag == 0);
      return out.bytes();
    };
    const auto expected = run(exec::scalar{});
    const auto norm = amp::fn::l2norm(exec::scalar{}, x.list());
    for (const int threads : {0, 1, 2, 5}) {
      CHECK(run(exec::openmp{.threads = threads}) == expected);
      CHECK(run(exec::openmp{.threads = threads, .chunk = 999}) == expected);
      const auto parallel = amp::fn::l2norm(exec::openmp{.threads = threads}, x.list());
      CHECK(parallel.total == norm.total);
      CHECK(parallel.per_tensor == norm.per_tensor);
    }
  }

  TEST_CASE("every thread flushes subnormals and leaves the caller's state alone") {
    std::vector<float> x(200000, 1e-40f), out(200000, -1.f);
    amp::nonfinite_report report;
    const std::vector<amp::tensor_view> in{amp::as_view(x)}, to{amp::as_view(out)};
    amp::fn::axpby(exec::openmp{.threads = 3}, to, 1.f, in, 1.f, in, report);
    bool zero = true;
    for (const float value : out) zero = zero && value == 0.f;
    CHECK(zero);
    volatile float tiny = 1e-40f;
    CHECK(tiny * 1.f > 0.f);
  }
}
