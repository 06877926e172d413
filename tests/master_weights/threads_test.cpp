#include <doctest/doctest.h>

#include "master_weights/instances.hpp"

template class amp::MasterWeights<amp::Adam>;  // this program has no other

using amp::Adam;
using amp::bfloat16;
using amp::dtype;
using amp::half;
using amp::masters;
using amp::MasterWeights;
using amp::scale_per;
using reference::Tensors;
using namespace test_masters;

TEST_SUITE("master_weights/threads") {
  TEST_CASE("all executors and chunk sizes give the same bits") {
    const auto run = [](amp::exec::any executor) {
      Tensors<half> t({3, 70000, 1, 999});
      MasterWeights<Adam> m({{Adam{.lr = 0.01, .weight_decay = 0.01}, t.source()}}, true, std::move(executor));
      for (unsigned step = 0; step < 3; ++step) t.draw_grads(step), m.step(0.5f, 0.75f);
      return saved(m);
    };
    const auto expected = run(amp::exec::scalar{});
    CHECK(run(amp::exec::vectorized{}) == expected);
    CHECK(run(amp::exec::vectorized{.chunk = 333}) == expected);
    CHECK(run(amp::exec::threads(3)) == expected);
  }
  TEST_CASE("M5 M13 random rounding depends on seed, step, tensor name and index alone") {
    const auto run = [](amp::exec::any executor, std::uint64_t seed, const std::string& name) {
      Tensors<bfloat16> t({3, 2000}), other({77});
      MasterWeights<Adam> m({{Adam{.lr = 0.01}, other.source("first"), "a"}, {Adam{.lr = 0.01}, t.source(name), "b"}},
                            {.masters = masters::stochastic, .seed = seed}, std::move(executor));
      for (unsigned step = 0; step < 3; ++step) t.draw_grads(step), m.step();
      return words(t.w[1]);
    };
    const auto expected = run(amp::exec::scalar{}, 1, "t");
    CHECK(run(amp::exec::vectorized{.chunk = 77}, 1, "t") == expected);
    CHECK(run(amp::exec::threads(2), 1, "t") == expected);
    CHECK(run(amp::exec::vectorized{}, 2, "t") != expected);
    CHECK(run(amp::exec::vectorized{}, 1, "u") != expected);
  }
  TEST_CASE("M12 low moments give equal bits for every executor and chunk size, with remainders and blocks too") {
    for (const auto& storage : std::vector<amp::storage_options>{
             {.masters = masters::remainder, .moments = dtype::e4m3},
             {.masters = masters::kahan, .moments = {dtype::e4m3, dtype::fp16}, .scales = scale_per::block},
             {.masters = masters::stochastic, .moments = dtype::bf16, .stochastic_moments = true, .seed = 5},
             {.masters = masters::fp16, .moments = dtype::fp16}}) {
      const auto run = [&](amp::exec::any executor) {
        Tensors<bfloat16> t({3, 9000, 1, 511});
        MasterWeights<Adam> m(group(Adam{.lr = 0.01, .weight_decay = 0.01}, t), storage, std::move(executor));
        for (unsigned step = 0; step < 3; ++step) t.draw_grads(step), m.step(0.5f, 0.75f);
        return saved(m);
      };
      const auto expected = run(amp::exec::scalar{});
      CHECK(run(amp::exec::vectorized{}) == expected);
      CHECK(run(amp::exec::vectorized{.chunk = 333}) == expected);
      CHECK(run(amp::exec::threads(3)) == expected);
    }
  }
}
