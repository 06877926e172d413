#include <doctest/doctest.h>

#include <amp/optim/capturable.hpp>
#include <cstdint>
#include <limits>
#include <vector>

#include "apply/tensors.hpp"

using amp::Adam;
using amp::dtype;
using test_apply::Tensors;
namespace exec = amp::exec;

namespace {

const std::vector<std::int64_t> sizes{3, 0, 700, 17};

/// What a capturable step is told, in host memory.
struct Memory {
  float lr = 0.01f;
  std::int64_t step = 0;
  std::int32_t found_inf = 0;
  float inv_scale = 1.f;

  [[nodiscard]] amp::capturable_memory view() { return {&lr, &step, &found_inf, &inv_scale}; }
};

/// A plain Adam step over the same lists.
void plain_step(const Adam& o, std::int64_t t, Tensors& w, Tensors& m, Tensors& v, Tensors& g) {
  Adam::group group{o};
  group.step = t;
  amp::multi_tensor_apply(exec::vectorized{}, Adam::functor(group), amp::lane::inout(w.list()),
                          amp::lane::inout(m.list()), amp::lane::inout(v.list()), amp::lane::in(g.list()));
}

}  // namespace

TEST_SUITE("optim/capturable") {
  TEST_CASE("F2 rate, counter, flag and inverse scale are read when the step runs, for every format") {
    for (const dtype type : {dtype::fp32, dtype::fp16, dtype::bf16}) {
      for (const auto mode : {amp::decay::decoupled, amp::decay::l2}) {
        Tensors w(sizes, {type}), m(sizes, {dtype::fp32}), v(sizes, {dtype::fp32}), g(sizes, {type});
        Tensors w2(sizes, {type}), m2(sizes, {dtype::fp32}), v2(sizes, {dtype::fp32}), g2(sizes, {type});
        w.randomize(1, 1.f), w2.randomize(1, 1.f);
        m.fill(0.f), v.fill(0.f), m2.fill(0.f), v2.fill(0.f);
        Memory memory;
        const Adam o{.weight_decay = 0.1, .mode = mode};
        for (int t = 1; t <= 3; ++t) {
          memory.lr = 0.01f * static_cast<float>(t);
          memory.inv_scale = 0.5f;
          g.randomize(static_cast<std::uint64_t>(10 + t), 4.f);
          g2.randomize(static_cast<std::uint64_t>(10 + t), 2.f);  // the same, times 1/2
          amp::capturable_step(exec::vectorized{}, o, memory.view(), {w.list(), m.list(), v.list(), g.list()});
          Adam with_rate = o;
          with_rate.lr = static_cast<double>(memory.lr);
          plain_step(with_rate, t, w2, m2, v2, g2);
          CHECK(g.bytes() == g2.bytes());  // written back, times the inverse scale
        }
        CHECK(memory.step == 3);
        CHECK(w.bytes() == w2.bytes());
        CHECK(m.bytes() == m2.bytes());
        CHECK(v.bytes() == v2.bytes());
      }
    }
  }
  TEST_CASE("F2 A6 a flag of 1 makes it a no-op that does not count, the flag of this very step") {
    Tensors w(sizes, {dtype::bf16}), m(sizes, {dtype::fp32}), v(sizes, {dtype::fp32}), g(sizes, {dtype::bf16});
    w.randomize(1, 1.f), g.randomize(2, 1.f), m.fill(0.f), v.fill(0.f);
    g.set(2, 699, std::numeric_limits<float>::infinity());
    Memory memory;
    memory.found_inf = 1;
    const auto w0 = w.bytes(), m0 = m.bytes(), g0 = g.bytes();
    amp::capturable_step(exec::threads{2}, Adam{}, memory.view(), {w.list(), m.list(), v.list(), g.list()});
    CHECK(w.bytes() == w0);
    CHECK(m.bytes() == m0);
    CHECK(g.bytes() == g0);
    CHECK(memory.step == 0);
    memory.found_inf = 0;
    g.randomize(3, 1.f);
    amp::capturable_step(exec::threads{2}, Adam{}, memory.view(), {w.list(), m.list(), v.list(), g.list()});
    CHECK(memory.step == 1);
    CHECK(w.bytes() != w0);
  }
  TEST_CASE("F2 the master variant reads the fp32 master and writes master and low copy") {
    for (const dtype type : {dtype::fp16, dtype::bf16}) {
      Tensors w(sizes, {dtype::fp32}), low(sizes, {type}), m(sizes, {dtype::fp32}), v(sizes, {dtype::fp32});
      Tensors g(sizes, {type}), expected(sizes, {type});
      w.randomize(1, 1.f), g.randomize(2, 1.f), low.fill(99.f), m.fill(0.f), v.fill(0.f);
      Memory memory;
      amp::capturable_step(exec::scalar{}, Adam{}, memory.view(), {w.list(), m.list(), v.list(), g.list(), low.list()});
      for (std::size_t t = 0; t < sizes.size(); ++t)
        for (std::int64_t i = 0; i < sizes[t]; ++i) expected.set(t, i, w.at(t, i));
      CHECK(low.bytes() == expected.bytes());
    }
  }
  TEST_CASE("M12 moments that need a scale are refused in a capturable step") {
    Tensors w({4}, {dtype::fp32}), m({4}, {dtype::fp16}), v({4}, {dtype::fp32}), g({4}, {dtype::fp32});
    Memory memory;
    CHECK_THROWS_WITH_AS(
        amp::capturable_step(exec::scalar{}, Adam{}, memory.view(), {w.list(), m.list(), v.list(), g.list()}),
        doctest::Contains("the moment of tensor 0 is fp16"), amp::error);
    CHECK_THROWS_AS(amp::capturable_step(exec::scalar{}, Adam{}, {}, {}), amp::error);
    CHECK_THROWS_AS(amp::capturable_step(exec::scalar{}, Adam{.beta1 = 1.}, memory.view(), {}), amp::error);
  }
}
