#include <doctest/doctest.h>

#include <amp/fn/scale.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "apply/tensors.hpp"

using amp::dtype;
using test_apply::Tensors;
namespace exec = amp::exec;

TEST_SUITE("fn/scale") {
  TEST_CASE("A9 out = a * in for every pair of formats, rounded once") {
    const std::vector<std::int64_t> sizes{1, 0, 33, 70000};
    for (const dtype from : {dtype::fp32, dtype::fp16, dtype::bf16}) {
      for (const dtype to : {dtype::fp32, dtype::fp16, dtype::bf16}) {
        Tensors in(sizes, {from});
        Tensors out(sizes, {to});
        in.randomize(1, 3.f);
        amp::nonfinite_report report;
        amp::fn::scale(exec::vectorized{}, out.list(), in.list(), 0.7f, report);
        bool same = true;
        for (std::size_t t = 0; t < sizes.size(); ++t) {
          for (std::int64_t i = 0; i < sizes[t]; ++i) {
            const float product = 0.7f * in.at(t, i);
            const float expected = amp::visit(to, [&]<class T>(std::type_identity<T>) { return float(T(product)); });
            same = same && out.at(t, i) == expected;
          }
        }
        CAPTURE(amp::name(from));
        CAPTURE(amp::name(to));
        CHECK(same);
        CHECK(report.flag == 0);
      }
    }
  }

  TEST_CASE("A6 in place is allowed") {
    Tensors x({5, 100}, {dtype::bf16, dtype::fp32});
    x.fill(2.f);
    amp::nonfinite_report report;
    amp::fn::scale(exec::threads{2}, x.list(), x.list(), 0.25f, report);
    CHECK(x.at(0, 4) == 0.5f);
    CHECK(x.at(1, 99) == 0.5f);
  }

  TEST_CASE("A6 A9 the input is checked, not the product, and infinity is written all the same") {
    Tensors in({3, 40}, {dtype::fp32});
    Tensors out({3, 40}, {dtype::fp16});
    in.fill(60000.f);
    amp::nonfinite_report report;
    amp::fn::scale(exec::vectorized{}, out.list(), in.list(), 2.f, report);
    CHECK(std::isinf(out.at(1, 39)));
    CHECK(report.flag == 0);
    in.set(1, 39, std::numeric_limits<float>::infinity());
    amp::fn::scale(exec::vectorized{}, out.list(), in.list(), 0.5f, report);
    CHECK(report.flag == 1);
    CHECK(report.first_tensor == 1);
    CHECK(std::isinf(out.at(1, 39)));
    CHECK(out.at(1, 38) == 30000.f);
  }

  TEST_CASE("an error names the list and the caller's place") {
    Tensors in({3}, {dtype::fp32});
    Tensors out({4}, {dtype::fp32});
    amp::nonfinite_report report;
    CHECK_THROWS_WITH_AS(amp::fn::scale(exec::vectorized{}, out.list(), in.list(), 1.f, report),
                         doctest::Contains("list 1, tensor 0 has 3 elements where list 0 has 4"), amp::error);
    CHECK_THROWS_WITH_AS(amp::fn::scale(exec::vectorized{}, out.list(), in.list(), 1.f, report),
                         doctest::Contains("scale_test.cpp"), amp::error);
  }

  TEST_CASE("A9 the factor may lie in memory, and is read when the pass runs") {
    float a = 3.f;
    const amp::fn::ScaleFrom functor{&a};
    Tensors x({40}, {dtype::bf16}), y({40}, {dtype::fp32});
    x.fill(2.f);
    a = 0.5f;
    amp::multi_tensor_apply(exec::vectorized{}, functor, amp::lane::out(y.list()), amp::lane::in(x.list()));
    CHECK(y.at(0, 39) == 1.f);
    amp::nonfinite_report report;
    a = 4.f;
    amp::fn::scale(exec::scalar{}, y.list(), x.list(), &a, report);
    CHECK(y.at(0, 0) == 8.f);
    const float* none = nullptr;
    CHECK_THROWS_AS(amp::fn::scale(exec::scalar{}, y.list(), x.list(), none, report), amp::error);
  }
  TEST_CASE("A9 the output is checked on request: a finite product that overflows a low format is found") {
    Tensors in({3, 33}, {dtype::fp32}), out({3, 33}, {dtype::fp16});
    in.fill(1.f);
    in.set(1, 32, 40000.f);
    using amp::fn::scale_check;
    for (const auto check : {scale_check::input, scale_check::output, scale_check::both}) {
      amp::nonfinite_report report;
      amp::fn::scale(exec::vectorized{}, out.list(), in.list(), 2.f, report, check);
      CHECK(report.found() == (check != scale_check::input));
      CHECK(report.first_tensor == (check != scale_check::input ? 1 : -1));
      CHECK(out.at(1, 32) == std::numeric_limits<float>::infinity());
    }
    in.set(0, 0, std::numeric_limits<float>::infinity());
    amp::nonfinite_report report;
    amp::fn::scale(exec::vectorized{}, out.list(), in.list(), 0.f, report, scale_check::both);
    CHECK(report.first_tensor == 0);
  }
}
