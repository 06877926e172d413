#include <doctest/doctest.h>

#include <amp/fn/axpby.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "apply/tensors.hpp"

using amp::dtype;
using amp::fn::axpby_check;
using test_apply::Tensors;
namespace exec = amp::exec;

TEST_SUITE("fn/axpby") {
  TEST_CASE("A9 out = a*x + b*y for all formats, two products and one sum rounded in fp32") {
    const std::vector<std::int64_t> sizes{17, 70000};
    for (const dtype tx : {dtype::fp32, dtype::fp16, dtype::bf16}) {
      for (const dtype ty : {dtype::fp32, dtype::fp16, dtype::bf16}) {
        for (const dtype to : {dtype::fp32, dtype::fp16, dtype::bf16}) {
          Tensors x(sizes, {tx}), y(sizes, {ty}), out(sizes, {to});
          x.randomize(1, 2.f);
          y.randomize(2, 2.f);
          amp::nonfinite_report report;
          amp::fn::axpby(exec::vectorized{}, out.list(), 0.3f, x.list(), -1.7f, y.list(), report);
          bool same = true;
          for (std::size_t t = 0; t < sizes.size(); ++t) {
            for (std::int64_t i = 0; i < sizes[t]; ++i) {
              const float ax = 0.3f * x.at(t, i);
              const float by = -1.7f * y.at(t, i);
              const float sum = ax + by;
              same =
                  same && out.at(t, i) == amp::visit(to, [&]<class T>(std::type_identity<T>) { return float(T(sum)); });
            }
          }
          CHECK(same);
        }
      }
    }
  }

  TEST_CASE("A9 the selector says whose non-finite elements count") {
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    for (const bool in_x : {true, false}) {
      for (const axpby_check check : {axpby_check::x, axpby_check::y, axpby_check::both}) {
        Tensors x({9, 20}, {dtype::fp32}), y({9, 20}, {dtype::bf16}), out({9, 20}, {dtype::fp32});
        x.fill(1.f);
        y.fill(1.f);
        (in_x ? x : y).set(1, 19, nan);
        amp::nonfinite_report report;
        amp::fn::axpby(exec::vectorized{}, out.list(), 1.f, x.list(), 1.f, y.list(), report, check);
        const bool counts = check == axpby_check::both || (check == axpby_check::x) == in_x;
        CHECK(report.flag == (counts ? 1 : 0));
        CHECK(report.first_tensor == (counts ? 1 : -1));
        CHECK(std::isnan(out.at(1, 19)));
      }
    }
  }

  TEST_CASE("out may be one of the inputs") {
    Tensors grad({40}, {dtype::bf16}), sum({40}, {dtype::fp32});
    grad.fill(3.f);
    sum.fill(0.5f);
    amp::nonfinite_report report;
    amp::fn::axpby(exec::vectorized{}, sum.list(), 0.25f, grad.list(), 1.f, sum.list(), report, axpby_check::x);
    CHECK(sum.at(0, 39) == 1.25f);
  }
}
