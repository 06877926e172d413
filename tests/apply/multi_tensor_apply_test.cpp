#include <doctest/doctest.h>

#include <amp/fn/adam.hpp>
#include <amp/fn/axpby.hpp>
#include <amp/multi_tensor_apply.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apply/tensors.hpp"
#include "simd/targets.hpp"
#include "support/errors.hpp"

using test_support::message_of;

using amp::as_view;
using amp::dtype;
using amp::multi_tensor_apply;
using amp::simd::target;
using test_apply::awkward_sizes;
using test_apply::Tensors;
namespace exec = amp::exec;
namespace lane = amp::lane;

namespace {

constexpr amp::fn::AdamW step = test_apply::first_adamw_step(1e-2f, 0.01f);

struct formats {
  std::vector<dtype> weight, state, grad, copy;
};

/// All bytes after two AdamW steps with master copies: weights, moments, low copies.
template <class E>
std::vector<unsigned char> adam_bytes(const E& executor, const formats& f, const std::vector<std::int64_t>& sizes,
                                      std::int64_t shift = 0) {
  Tensors w(sizes, f.weight, shift);
  Tensors m(sizes, f.state, shift);
  Tensors v(sizes, f.state, shift);
  Tensors g(sizes, f.grad, shift);
  Tensors c(sizes, f.copy.empty() ? std::vector{dtype::bf16} : f.copy, shift);
  w.randomize(1, 1.f);
  m.fill(0.f);
  v.fill(0.f);
  g.randomize(2, 1e-3f);
  c.fill(0.f);
  for (std::size_t t = 0; t < w.size(); ++t) {
    if (f.copy.empty() || (f.copy.size() > 1 && t % 3 == 0)) c.list()[t].data = nullptr;  // fp32 norms have no copy
  }
  for (int k = 0; k < 2; ++k) {
    multi_tensor_apply(executor, step, lane::inout_with_copy(w.list(), c.list()), m.list(), v.list(),
                       lane::in(g.list(), 0.5f));
  }
  CHECK((w.guards_intact() && m.guards_intact() && v.guards_intact() && c.guards_intact()));
  auto all = w.bytes();
  for (const auto* list : {&m, &v, &c}) {
    const auto more = list->bytes();
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

const formats master_bf16{{dtype::fp32}, {dtype::fp32}, {dtype::bf16}, {dtype::bf16}};
const formats master_fp16{{dtype::fp32}, {dtype::fp32}, {dtype::fp16}, {dtype::fp16}};
const formats mixed_norms{{dtype::fp32}, {dtype::fp32}, {dtype::bf16, dtype::fp32}, {dtype::bf16, dtype::fp16}};
const formats all_fp32{{dtype::fp32}, {dtype::fp32}, {dtype::fp32}, {}};
const formats low_grads{{dtype::fp32}, {dtype::fp32}, {dtype::bf16, dtype::fp16}, {}};
const std::vector<formats> every_path{master_bf16, master_fp16, mixed_norms, all_fp32, low_grads};

/// Adds a number that depends on where it is.
struct AddIndex {
  float by;
  [[nodiscard]] AddIndex at(const amp::apply::piece& p) const {
    return {by + static_cast<float>(p.tensor) + 100.f * static_cast<float>(p.chunk)};
  }
  template <class V>
  AMP_INLINE void operator()(V& x) const {
    x = x + by;
  }
};

}  // namespace

TEST_SUITE("apply/multi_tensor_apply") {
  TEST_CASE("A1 A8 results are the same bits for every target, path, executor, thread count and chunk size") {
    const auto sizes = awkward_sizes();
    for (const formats& f : every_path) {
      const auto expected = adam_bytes(exec::scalar{}, f, sizes);
      CHECK(adam_bytes(exec::scalar{.chunk = 1000, .fused = false}, f, sizes) == expected);
      for (const target t : test_simd::targets()) {
        CAPTURE(amp::simd::name(t));
        CHECK(adam_bytes(exec::vectorized{.target = t}, f, sizes) == expected);
        CHECK(adam_bytes(exec::vectorized{.target = t, .fused = false}, f, sizes) == expected);
      }
      for (const std::int64_t chunk : {1, 333, 33333, 65535, 1 << 20}) {
        CAPTURE(chunk);
        CHECK(adam_bytes(exec::vectorized{.chunk = chunk}, f, sizes) == expected);
      }
      for (const int n : {1, 2, 3, 7}) {
        exec::threads pool(n);
        CHECK(adam_bytes(pool, f, sizes) == expected);
        pool.chunk = 777;
        CHECK(adam_bytes(pool, f, sizes) == expected);
      }
    }
  }

  TEST_CASE("low weights and low moments go through the scratch path with the same bits on every target") {
    const formats all_low{
        {dtype::bf16, dtype::fp16, dtype::fp32}, {dtype::fp32, dtype::bf16}, {dtype::fp16, dtype::bf16}, {}};
    const auto sizes = awkward_sizes();
    const auto expected = adam_bytes(exec::scalar{}, all_low, sizes);
    for (const target t : test_simd::targets())
      CHECK(adam_bytes(exec::vectorized{.target = t}, all_low, sizes) == expected);
    CHECK(adam_bytes(exec::vectorized{.chunk = 100}, all_low, sizes) == expected);
  }

  TEST_CASE(
      "a tensor that starts at any offset legal for its format gives the same result and nothing else is written") {
    const std::vector<std::int64_t> sizes{1, 15, 16, 17, 100, 0, 1000, 65537};
    for (const formats& f : {master_bf16, mixed_norms}) {
      for (const std::int64_t shift : {1, 3, 5, 8}) {
        const auto expected = adam_bytes(exec::scalar{}, f, sizes, shift);
        for (const target t : test_simd::targets()) {
          CHECK(adam_bytes(exec::vectorized{.target = t}, f, sizes, shift) == expected);
          CHECK(adam_bytes(exec::vectorized{.target = t, .fused = false}, f, sizes, shift) == expected);
        }
      }
    }
  }

  TEST_CASE("A1 all tensors at once equal the same tensors one by one") {
    const auto sizes = awkward_sizes();
    Tensors together(sizes, {dtype::fp32, dtype::bf16});
    Tensors apart(sizes, {dtype::fp32, dtype::bf16});
    Tensors x(sizes, {dtype::fp16});
    together.randomize(5, 1.f);
    apart.randomize(5, 1.f);
    x.randomize(6, 1.f);
    const amp::fn::Axpby f{0.5f, 2.f};
    multi_tensor_apply(exec::vectorized{}, f, together.list(), lane::in(x.list()), lane::in(together.list()));
    for (std::size_t t = 0; t < sizes.size(); ++t) {
      const amp::tensor_list out(&apart.list()[t], 1);
      const amp::tensor_list in(&x.list()[t], 1);
      multi_tensor_apply(exec::scalar{}, f, lane::out(out), lane::in(in), lane::in(out));
    }
    CHECK(together.bytes() == apart.bytes());
  }

  TEST_CASE("A4 400 tensors in one call are all stepped") {
    std::vector<std::int64_t> sizes;
    for (int t = 0; t < 400; ++t) sizes.push_back(t * 7 % 97);
    const auto expected = adam_bytes(exec::scalar{}, mixed_norms, sizes);
    CHECK(adam_bytes(exec::vectorized{}, mixed_norms, sizes) == expected);
    CHECK(adam_bytes(exec::threads{4}, mixed_norms, sizes) == expected);
    CHECK(adam_bytes(exec::vectorized{.chunk = 10}, mixed_norms, sizes) == expected);
  }

  TEST_CASE("the low copy is the master, rounded, and an entry without a copy is stepped all the same") {
    std::vector<float> w(100, 1.f), m(100), v(100), w2(100, 1.f), m2(100), v2(100), g(100, 0.25f);
    std::vector<amp::bfloat16> copy(100);
    std::vector<amp::tensor_view> weights{as_view(w), as_view(w2)}, copies{as_view(copy), {}};
    copies[1].size = 100;
    multi_tensor_apply(exec::vectorized{}, step, lane::inout_with_copy(weights, copies),
                       std::vector{as_view(m), as_view(m2)}, std::vector{as_view(v), as_view(v2)},
                       lane::in(std::vector{as_view(g), as_view(g)}));
    for (std::size_t i = 0; i < 100; ++i) {
      CHECK(w[i] != 1.f);
      CHECK(w2[i] == w[i]);
      CHECK(copy[i].bits() == amp::bfloat16(w[i]).bits());
    }
  }

  TEST_CASE("raw lists of vectors, spans and foreign elements work, const ones are only read") {
    std::vector<std::vector<float>> out{{1.f, 2.f}, {3.f}};
    const std::vector<std::vector<float>> x{{10.f, 20.f}, {30.f}};
    std::vector<std::span<const float>> y{x[0], x[1]};
    multi_tensor_apply(exec::vectorized{}, amp::fn::Axpby{1.f, 2.f}, out, x, y);
    CHECK(out[0][0] == 30.f);
    CHECK(out[1][0] == 90.f);
    CHECK(x[0][0] == 10.f);
#if defined(__FLT16_MAX__)
    std::vector<std::vector<_Float16>> low{{static_cast<_Float16>(0.5f), static_cast<_Float16>(2.f)},
                                           {static_cast<_Float16>(4.f)}};
    multi_tensor_apply(exec::vectorized{}, amp::fn::Axpby{1.f, 2.f}, out, std::as_const(low), y);
    CHECK(out[0][1] == 42.f);
#endif
  }

  TEST_CASE("a functor with at() differs from tensor to tensor, whatever the chunks") {
    std::vector<std::vector<float>> lists{std::vector<float>(10), {}, std::vector<float>(25)};
    multi_tensor_apply(exec::vectorized{.chunk = 20}, AddIndex{0.5f}, lists);
    CHECK(lists[0][9] == 0.5f);
    CHECK(lists[2][0] == 2.5f);
    CHECK(lists[2][19] == 2.5f);
    CHECK(lists[2][20] == 102.5f);
  }

  TEST_CASE("A3 empty lists and lists of empty tensors are no work and leave a report alone") {
    amp::nonfinite_report report;
    std::vector<amp::tensor_view> none;
    multi_tensor_apply(exec::vectorized{}, amp::fn::Axpby{1.f, 1.f}, lane::out(none), lane::in(none).check(report),
                       lane::in(none).check(report));
    std::vector<amp::tensor_view> empty(3);
    multi_tensor_apply(exec::threads{2}, amp::fn::Axpby{1.f, 1.f}, lane::out(empty), lane::in(empty).check(report),
                       lane::in(empty).check(report));
    CHECK(report.flag == 0);
    CHECK(report.first_tensor == -1);
  }

  TEST_CASE("subnormal fp32 operands count as zero and the thread's own FTZ/DAZ state changes nothing") {
    std::vector<float> x{1e-40f, 1.f};
    std::vector<float> y(2);
    const auto run = [&](auto executor) {
      y.assign(2, -1.f);
      multi_tensor_apply(executor, amp::fn::Axpby{1.f, 1.f}, lane::out(std::vector{as_view(y)}),
                         lane::in(std::vector{as_view(x)}), lane::in(std::vector{as_view(x)}));
      return y;
    };
    const std::vector<float> expected{0.f, 2.f};
    for (const target t : test_simd::targets()) CHECK(run(exec::vectorized{.target = t}) == expected);
    const amp::simd::flush_scope flush;
    for (const target t : test_simd::targets()) CHECK(run(exec::vectorized{.target = t}) == expected);
    CHECK(run(exec::scalar{}) == expected);
  }

  TEST_CASE("A2 wrong lists are refused with list and tensor named, before anything is written") {
    std::vector<float> a(4, 1.f), b(4, 1.f), c(3, 1.f);
    std::vector<amp::tensor_view> x{as_view(a), as_view(b, "bias")}, shorter{as_view(a)},
        other{as_view(a), as_view(c, "bias")};
    const amp::fn::Axpby f{1.f, 1.f};
    const auto call = [&](const std::vector<amp::tensor_view>& out, const std::vector<amp::tensor_view>& in) {
      return message_of(
          [&] { multi_tensor_apply(exec::vectorized{}, f, lane::out(out), lane::in(out), lane::in(in)); });
    };
    CHECK(call(x, shorter).find("list 2 has 1 tensors where list 0 has 2") != std::string::npos);
    CHECK(call(x, other).find("list 2, tensor 1 (bias) has 3 elements where list 0 has 4") != std::string::npos);
    auto missing = x;
    missing[0].data = nullptr;
    CHECK(call(x, missing).find("list 2, tensor 0 has no data") != std::string::npos);
    auto unknown = x;
    unknown[1].type = static_cast<dtype>(99);
    CHECK(call(x, unknown).find("list 2, tensor 1 (bias) has an unknown dtype") != std::string::npos);
    auto negative = x;
    negative[0].size = -4;
    CHECK(call(negative, negative).find("negative size") != std::string::npos);
    const std::vector<float> constant(4);
    const std::vector<amp::tensor_view> readonly{as_view(a), as_view(constant)};
    CHECK(call(readonly, x).find("list 0, tensor 1 is read-only") != std::string::npos);
    CHECK(call(x, readonly).empty());
    CHECK(message_of([&] {
            multi_tensor_apply(exec::vectorized{.chunk = 0}, f, lane::out(x), lane::in(x), lane::in(x));
          }).find("chunk size is 0") != std::string::npos);
    a.assign(4, 1.f);
    std::vector<amp::half> low(2);
    std::vector<amp::tensor_view> copies{as_view(low), {}};
    CHECK(message_of([&] {
            multi_tensor_apply(exec::vectorized{}, step, lane::inout_with_copy(x, copies), x, x, lane::in(x));
          }).find("the copy of list 0, tensor 0 must be") != std::string::npos);
    CHECK(message_of([&] {
            multi_tensor_apply(exec::vectorized{}, step, lane::inout_with_copy(x, shorter), x, x, lane::in(x));
          }).find("the copy of list 0 has 1 tensors") != std::string::npos);
    CHECK(a[0] == 1.f);
    CHECK_THROWS_AS(exec::threads(-1), amp::error);
  }

  TEST_CASE("the call operator's constness is the direction of its lists") {
    static_assert(amp::LaneFunctor<amp::fn::AdamW, float&, float&, float&, const float&>);
    static_assert(!amp::LaneFunctor<amp::fn::AdamW, const float&, float&, float&, const float&>);
    static_assert(!amp::LaneFunctor<amp::fn::AdamW, float&, float&, const float&>);
    CHECK(amp::lane::Lane<decltype(lane::in({}))>);
  }
}
