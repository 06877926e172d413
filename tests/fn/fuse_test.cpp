#include <doctest/doctest.h>

#include <amp/fn/adam.hpp>
#include <amp/fn/copy.hpp>
#include <amp/fn/fuse.hpp>
#include <amp/fn/scale.hpp>
#include <amp/multi_tensor_apply.hpp>
#include <cstdint>
#include <vector>

#include "apply/tensors.hpp"

using amp::dtype;
using test_apply::Tensors;
namespace exec = amp::exec;
namespace fn = amp::fn;
namespace lane = amp::lane;

namespace {
const std::vector<std::int64_t> sizes{3, 0, 700, 17};

/// Adds a number of its tensor, unless a flag is set.
struct AddOfTensor {
  const float* addends;
  const int* flag;
  float addend = 0.f;
  AddOfTensor at(const amp::apply::piece& p) const { return {addends, flag, addends[p.tensor]}; }
  bool skips() const { return *flag != 0; }
  template <class V>
  AMP_INLINE void operator()(V& x) const {
    x = x + V(addend);
  }
};
/// Counts the passes that an executor was asked for.
struct Counting {
  std::int64_t chunk = amp::apply::default_chunk;
  bool fused = true;
  int* passes;
  static amp::simd::target isa() { return amp::simd::target::best; }
  void run(std::int64_t items, std::int64_t, amp::apply::task_ref task) const {
    ++*passes;
    for (std::int64_t i = 0; i < items; ++i) task(i);
  }
};
}  // namespace

TEST_SUITE("fn/fuse") {
  TEST_CASE("A9 two functors in one pass give the bits of two passes, and are one pass") {
    Tensors x(sizes, {dtype::bf16}), y(sizes, {dtype::fp32}), z(sizes, {dtype::fp16});
    Tensors y2(sizes, {dtype::fp32}), z2(sizes, {dtype::fp16});
    x.randomize(1, 1.f);
    int passes = 0;
    const Counting executor{.passes = &passes};
    amp::multi_tensor_apply(executor, fn::fuse(fn::on<0, 1>(fn::Scale{0.3f}), fn::on<2, 0>(fn::Copy{})),
                            lane::out(y.list()), lane::in(x.list()), lane::out(z.list()));
    CHECK(passes == 1);
    amp::multi_tensor_apply(exec::scalar{}, fn::Scale{0.3f}, lane::out(y2.list()), lane::in(x.list()));
    amp::multi_tensor_apply(exec::scalar{}, fn::Copy{}, lane::out(z2.list()), lane::in(y2.list()));
    CHECK(y.bytes() == y2.bytes());
    CHECK(z.bytes() == z2.bytes());
  }
  TEST_CASE("A9 fused functors keep what they know per tensor and their flags, more than two too") {
    const float addends[] = {1.f, 2.f, 4.f, 8.f};
    const int off = 0, on = 1;
    Tensors x(sizes, {dtype::fp32});
    x.fill(0.5f);
    amp::multi_tensor_apply(
        exec::vectorized{.chunk = 100},
        fn::fuse(AddOfTensor{addends, &off}, fn::on<0>(AddOfTensor{addends, &off}), AddOfTensor{addends, &on}),
        lane::inout(x.list()));
    CHECK(x.at(0, 2) == 2.5f);
    CHECK(x.at(2, 699) == 8.5f);
    CHECK(x.at(3, 0) == 16.5f);
  }
}
