#include <doctest/doctest.h>

#include <amp/apply/scaled_copy.hpp>
#include <amp/fn/scale.hpp>
#include <amp/multi_tensor_apply.hpp>
#include <amp/optim/executor.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "apply/tensors.hpp"
#include "simd/targets.hpp"

using amp::dtype;
using test_apply::Tensors;
namespace exec = amp::exec;
namespace lane = amp::lane;

namespace {

const std::vector<std::int64_t> sizes{5, 0, 70001, 33};

struct Run {
  Tensors w{sizes, {dtype::fp32}}, copy{sizes, {dtype::e4m3, dtype::e4m3, dtype::e5m2}}, m{sizes, {dtype::fp32}},
      v{sizes, {dtype::fp32}}, g{sizes, {dtype::bf16, dtype::fp32}};
  std::vector<amp::scaled_copy> infos{{16.f}, {2.f}, {8.f}, {1024.f}};

  explicit Run(const exec::any& executor) {
    w.randomize(1, 1.f), g.randomize(2, 1.f), m.fill(0.f), v.fill(0.f);
    amp::multi_tensor_apply(executor, test_apply::first_adamw_step(0.1f, 0.f),
                            lane::inout_with_scaled_copy(w.list(), copy.list(), infos), lane::inout(m.list()),
                            lane::inout(v.list()), lane::in(g.list()));
  }
};

}  // namespace

TEST_SUITE("apply/scaled_copy") {
  TEST_CASE(
      "F11 fp8 parameters take round(p * scale), saturated, with amax and inverse scale, from decoupled gradients") {
    const Run run(exec::vectorized{});
    for (std::size_t t = 0; t < sizes.size(); ++t) {
      float amax = 0.f;
      bool equal = true;
      for (std::int64_t i = 0; i < sizes[t]; ++i) {
        const float p = run.w.at(t, i), scale = run.infos[t].scale;
        amax = std::fmax(amax, std::fabs(p));
        const float limit = run.copy.list()[t].type == dtype::e4m3 ? 448.f : 57344.f;
        const float inside = std::fmin(std::fmax(p * scale, -limit), limit);
        equal &= run.copy.at(t, i) ==
                 (run.copy.list()[t].type == dtype::e4m3 ? float(amp::e4m3(inside)) : float(amp::e5m2(inside)));
      }
      CHECK(equal);
      CHECK(run.infos[t].amax == amax);
      CHECK(run.infos[t].inverse == (sizes[t] == 0 ? 1.f : 1.f / run.infos[t].scale));
    }

    CHECK(run.copy.guards_intact());
  }
  TEST_CASE("F11 equal bits for every target, thread count and chunk") {
    const Run expected(exec::scalar{});
    const auto check = [&](const exec::any& executor) {
      const Run run(executor);
      CHECK(run.w.bytes() == expected.w.bytes());
      CHECK(run.copy.bytes() == expected.copy.bytes());
      for (std::size_t t = 0; t < sizes.size(); ++t) CHECK(run.infos[t].amax == expected.infos[t].amax);
    };
    for (const auto t : test_simd::targets()) check(exec::vectorized{.chunk = 333, .target = t});
    check(exec::threads{3});
  }
  TEST_CASE("F11 the inverse of the largest scales is the subnormal that it has to be, on threads that flush too") {
    Tensors w({4}, {dtype::fp32}), copy({4}, {dtype::e4m3});
    w.fill(0x1p-125f);
    std::vector<amp::scaled_copy> infos{{0x1p127f}};
    amp::multi_tensor_apply(exec::vectorized{}, amp::fn::Scale{1.f},
                            lane::inout_with_scaled_copy(w.list(), copy.list(), infos), lane::in(w.list()));
    CHECK(copy.at(0, 3) == 4.f);
    CHECK(__builtin_bit_cast(std::uint32_t, infos[0].inverse) == 0x00400000u);  // 2^-127
  }
  TEST_CASE("F11 a NaN weight shows in amax, and a list without infos is refused") {
    float largest = 3.f;
    amp::apply::raise_to(largest, 2.f);
    CHECK(largest == 3.f);
    amp::apply::raise_to(largest, std::numeric_limits<float>::quiet_NaN());
    CHECK(std::isnan(largest));
    Tensors w({2}, {dtype::fp32}), copy({2}, {dtype::e4m3});
    CHECK_THROWS_AS(static_cast<void>(lane::inout_with_scaled_copy(w.list(), copy.list(), {})), amp::error);
  }
}
