#include <doctest/doctest.h>

#include <amp/apply/lanes.hpp>
#include <amp/fn/axpby.hpp>
#include <amp/fn/copy.hpp>
#include <amp/multi_tensor_apply.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "apply/tensors.hpp"
#include "simd/targets.hpp"

using amp::dtype;
using amp::multi_tensor_apply;
using amp::simd::target;
using test_apply::Tensors;
namespace exec = amp::exec;
namespace lane = amp::lane;

TEST_SUITE("apply/lanes") {
  TEST_CASE("a scaled read multiplies once, in fp32, whatever the format") {
    const std::vector<std::int64_t> sizes{37, 600};
    Tensors in(sizes, {dtype::bf16, dtype::fp32});
    Tensors out(sizes, {dtype::fp32, dtype::fp16});
    in.randomize(3, 1.f);
    const float scale = 0.3f;
    multi_tensor_apply(exec::vectorized{}, amp::fn::Copy{}, lane::out(out.list()), lane::in(in.list(), scale));
    bool same = true;
    for (std::int64_t i = 0; i < 37; ++i) same = same && out.at(0, i) == in.at(0, i) * scale;
    for (std::int64_t i = 0; i < 600; ++i) same = same && out.at(1, i) == float(amp::half(in.at(1, i) * scale));
    CHECK(same);
  }

  TEST_CASE("an unscaled copy keeps every bit, subnormals too") {
    std::vector<float> x{1e-40f, -1e-45f, 0.f, -0.f, 1.f};
    std::vector<float> y(5);
    multi_tensor_apply(exec::vectorized{}, amp::fn::Copy{}, lane::out(std::vector{amp::as_view(y)}),
                       lane::in(std::vector{amp::as_view(x)}));
    CHECK(y == x);
    CHECK(std::signbit(y[3]));
  }

  TEST_CASE("A6 a check finds a non-finite element at each place of a tensor, in each tensor, on every path") {
    const std::vector<std::int64_t> sizes{0, 1, 16, 37, 2000};
    constexpr float inf = std::numeric_limits<float>::infinity();
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    for (const auto& types :
         std::vector<std::vector<dtype>>{{dtype::fp32}, {dtype::bf16}, {dtype::fp16, dtype::fp32}}) {
      Tensors in(sizes, types);
      Tensors out(sizes, {dtype::fp32, dtype::bf16});
      in.randomize(4, 1.f);
      for (const target t : test_simd::targets()) {
        for (const bool fused : {true, false}) {
          const exec::vectorized executor{.chunk = 500, .target = t, .fused = fused};
          for (std::size_t tensor = 1; tensor < sizes.size(); ++tensor) {
            for (const std::int64_t i :
                 {std::int64_t{0}, sizes[tensor] / 2, std::int64_t{499}, std::int64_t{500}, sizes[tensor] - 1}) {
              if (i >= sizes[tensor]) continue;
              const float before = in.at(tensor, i);
              in.set(tensor, i, i % 2 == 0 ? -inf : nan);
              amp::nonfinite_report report;
              multi_tensor_apply(executor, amp::fn::Copy{}, lane::out(out.list()), lane::in(in.list()).check(report));
              CHECK(report.flag == 1);
              CHECK(report.first_tensor == static_cast<std::int64_t>(tensor));
              CHECK_FALSE(std::isfinite(out.at(tensor, i)));  // values still propagate
              in.set(tensor, i, before);
            }
          }
          amp::nonfinite_report clean;
          multi_tensor_apply(executor, amp::fn::Copy{}, lane::out(out.list()), lane::in(in.list()).check(clean));
          CHECK(clean.flag == 0);
        }
      }
    }
  }

  TEST_CASE("A6 a report names the first tensor, is never cleared, and may serve two lanes") {
    const std::vector<std::int64_t> sizes(300, 500);
    Tensors x(sizes, {dtype::fp32});
    Tensors y(sizes, {dtype::fp32});
    Tensors out(sizes, {dtype::fp32});
    x.fill(1.f);
    y.fill(1.f);
    for (const std::size_t t : {250u, 120u}) x.set(t, 499, std::numeric_limits<float>::infinity());
    y.set(7, 0, std::numeric_limits<float>::quiet_NaN());
    amp::nonfinite_report report;
    const auto run = [&] {
      multi_tensor_apply(exec::threads{4}, amp::fn::Axpby{1.f, 1.f}, lane::out(out.list()),
                         lane::in(x.list()).check(report), lane::in(y.list()).check(report));
    };
    run();
    CHECK(report.first_tensor == 7);
    x.fill(1.f);
    y.fill(1.f);
    run();
    CHECK(report.flag == 1);
    CHECK(report.found());
    CHECK(report.first_tensor == 7);
  }

  TEST_CASE("A9 a check of the input sees it before the scale, a check of the output after the rounding") {
    for (const target t : test_simd::targets()) {
      for (const bool fused : {true, false}) {
        const exec::vectorized executor{.target = t, .fused = fused};
        for (const dtype type : {dtype::fp16, dtype::bf16, dtype::fp32}) {
          Tensors in({35}, {dtype::fp32});
          Tensors out({35}, {type});
          in.fill(1.f);
          const float limit = type == dtype::fp16 ? 65519.9f : 3.38e38f;
          in.set(0, 34, limit);
          amp::nonfinite_report read, written;
          const auto run = [&](float scale) {
            multi_tensor_apply(executor, amp::fn::Copy{}, lane::out(out.list()).check(written),
                               lane::in(in.list(), scale).check(read));
          };
          run(1.f);
          CHECK(read.flag == 0);
          CHECK(written.flag == 0);
          run(1.1f);
          CHECK(read.flag == 0);
          CHECK(written.flag == 1);
          CHECK(written.first_tensor == 0);
        }
      }
    }
  }
}
