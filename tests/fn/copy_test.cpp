#include <doctest/doctest.h>

#include <amp/fn/copy.hpp>
#include <amp/multi_tensor_apply.hpp>
#include <cstdint>
#include <vector>

#include "apply/tensors.hpp"

using amp::dtype;
using test_apply::Tensors;
namespace exec = amp::exec;
namespace lane = amp::lane;

TEST_SUITE("fn/copy") {
  TEST_CASE("A9 a copy to a low format and back is the rounding, a copy to fp32 is exact") {
    const auto sizes = test_apply::awkward_sizes();
    for (const dtype low : {dtype::fp16, dtype::bf16}) {
      Tensors master(sizes, {dtype::fp32}), model(sizes, {low}), back(sizes, {dtype::fp32});
      master.randomize(7, 1.f);
      amp::multi_tensor_apply(exec::threads{2}, amp::fn::Copy{}, lane::out(model.list()), lane::in(master.list()));
      amp::multi_tensor_apply(exec::vectorized{}, amp::fn::Copy{}, lane::out(back.list()), lane::in(model.list()));
      bool same = true;
      for (std::size_t t = 0; t < sizes.size(); ++t) {
        for (std::int64_t i = 0; i < sizes[t]; ++i) {
          const float x = master.at(t, i);
          const float expected = low == dtype::fp16 ? float(amp::half(x)) : float(amp::bfloat16(x));
          same = same && model.at(t, i) == expected && back.at(t, i) == expected;
        }
      }
      CHECK(same);
    }
  }

  TEST_CASE("A9 a fill writes its value, zero by default") {
    Tensors x({1, 0, 50}, {dtype::bf16, dtype::fp32, dtype::fp16});
    amp::multi_tensor_apply(exec::vectorized{}, amp::fn::Fill{1.5f}, lane::out(x.list()));
    CHECK(x.at(0, 0) == 1.5f);
    CHECK(x.at(2, 49) == 1.5f);
    amp::multi_tensor_apply(exec::vectorized{}, amp::fn::Fill{}, lane::out(x.list()));
    CHECK(x.at(2, 49) == 0.f);
    CHECK(x.guards_intact());
  }

  TEST_CASE("A9 copy, fill and zero over lists of any formats, empty tensors among them") {
    Tensors x({3, 0, 70}, {dtype::fp32, dtype::e4m3, dtype::bf16}), y({3, 0, 70}, {dtype::fp16});
    amp::fn::fill(exec::threads{2}, x.list(), 1.25f);
    amp::fn::copy(exec::vectorized{}, y.list(), x.list());
    CHECK(y.at(0, 2) == 1.25f);
    CHECK(y.at(2, 69) == 1.25f);
    amp::fn::zero(exec::scalar{}, x.list());
    CHECK(x.at(2, 69) == 0.f);
    CHECK(x.guards_intact());
    CHECK_THROWS_AS(amp::fn::copy(exec::scalar{}, y.list(), amp::tensor_list{}), amp::error);
  }
}
