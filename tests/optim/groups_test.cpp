#include <doctest/doctest.h>

#include <amp/optim/adam.hpp>
#include <amp/optim/clip.hpp>
#include <cstddef>
#include <cstdint>
#include <span>

#include "optim/reference.hpp"

using amp::Adam;
using reference::Tensors;
using Masters = amp::MasterWeights<Adam>;

namespace {

const std::vector<std::size_t> sizes{1, 7, 0, 64, 333};

/// Counts the passes over lists that an executor was asked for, and their elements.
struct Counting {
  std::int64_t chunk = amp::apply::default_chunk;
  bool fused = true;
  std::vector<std::int64_t>* passes;
  static amp::simd::target isa() { return amp::simd::target::best; }
  void run(std::int64_t items, std::int64_t elements, amp::apply::task_ref task) const {
    passes->push_back(elements);
    for (std::int64_t i = 0; i < items; ++i) task(i);
  }
};

/// Three fp32 steps on the values that `t` stores, which its own steps must round to.
template <class W, class G>
void check_against_fp32(bool masters) {
  CAPTURE(masters);
  Tensors<W, G> t(sizes);
  Tensors<float> full(sizes);
  for (std::size_t i = 0; i < sizes.size(); ++i)
    for (std::size_t k = 0; k < sizes[i]; ++k) full.w[i][k] = float(t.w[i][k]);
  const Adam o{.lr = 0.05, .weight_decay = 0.1};
  Masters low({{o, t.source()}}, masters), reference({{o, full.source()}});
  for (unsigned step = 1; step <= 3; ++step) {
    t.draw_grads(step);
    for (std::size_t i = 0; i < sizes.size(); ++i)
      for (std::size_t k = 0; k < sizes[i]; ++k) full.g[i][k] = float(t.g[i][k]);
    low.step();
    reference.step();
    bool equal = true;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      for (std::size_t k = 0; k < sizes[i]; ++k) {
        equal &= float(t.w[i][k]) == float(W(full.w[i][k]));
        if (!masters) full.w[i][k] = float(t.w[i][k]);  // without a master each step starts from what was stored
      }
    }
    CHECK(equal);
  }
}

}  // namespace

TEST_SUITE("optim/groups") {
  TEST_CASE("F1 every format of gradient and parameter, with a master or without, is one rounding of the fp32 step") {
    for (const bool masters : {true, false}) {
      check_against_fp32<float, amp::half>(masters);
      check_against_fp32<float, amp::bfloat16>(masters);
      check_against_fp32<amp::half, amp::half>(masters);
      check_against_fp32<amp::bfloat16, amp::bfloat16>(masters);
      check_against_fp32<amp::half, float>(masters);
      check_against_fp32<amp::bfloat16, float>(masters);
      check_against_fp32<amp::half, amp::bfloat16>(masters);
      check_against_fp32<amp::bfloat16, amp::half>(masters);
    }
  }
  TEST_CASE("F1 a step over all tensors equals the same tensors one by one, bit for bit") {
    Tensors<amp::bfloat16> all(sizes), single(sizes);
    const Adam o{.lr = 0.05, .weight_decay = 0.1};
    Masters a({{o, all.source()}});
    std::vector<amp::GroupSpec<Adam>> groups;
    for (auto& p : single.params()) groups.push_back({o, std::make_shared<amp::FixedParams>(std::vector{p}), p.name});
    Masters b(std::move(groups), true, amp::exec::scalar{.chunk = 3});
    for (unsigned step = 1; step <= 3; ++step) {
      all.draw_grads(step), single.draw_grads(step);
      a.step(), b.step();
    }
    for (std::size_t i = 0; i < sizes.size(); ++i)
      for (std::size_t k = 0; k < sizes[i]; ++k) CHECK(all.w[i][k].bits() == single.w[i][k].bits());
  }
  TEST_CASE("B19 F1 low parameters without masters and zero gradients stay unchanged and finite, eps and all") {
    Tensors<amp::half> t({33});
    for (auto& g : t.g[0]) g = amp::half(0.f);
    const auto before = t.w;
    Masters m({{Adam{.eps = 1e-8}, t.source()}}, false);
    for (int i = 0; i < 3; ++i) m.step();
    for (std::size_t k = 0; k < 33; ++k) CHECK(t.w[0][k].bits() == before[0][k].bits());
    for (auto& g : t.g[0]) g = amp::half(1e-4f);  // its square is 0 in fp16; the moments are fp32
    m.step();
    for (const auto x : t.w[0]) CHECK(std::isfinite(float(x)));
  }
  TEST_CASE("B12 F1 a group's counter counts from 1, done steps only, whatever groups came when") {
    Tensors<float> a({4}), b({4}), fresh({4});
    const Adam o{.lr = 0.1};
    Masters m({{o, a.source("a")}}), alone({{o, fresh.source()}});
    m.step();
    m.skip();
    m.add_group({o, b.source("b"), "late"});
    CHECK(m.group(0).step == 1);
    CHECK(m.group(1).step == 0);
    m.step(), alone.step();
    CHECK(m.group(0).step == 2);
    CHECK(m.group(1).step == 1);
    CHECK(b.w == fresh.w);  // the late group takes its first step
  }
  TEST_CASE("F10 unscale, norm and clip folded into the step give the bits of separate calls, in two passes") {
    constexpr float scale = 4096.f;
    Tensors<amp::bfloat16> folded(sizes), separate(sizes);
    std::vector<std::int64_t> passes;
    const Counting executor{.passes = &passes};
    const Adam o{.lr = 0.05, .weight_decay = 0.1};
    Masters a({{o, folded.source()}}, true, executor);
    Tensors<amp::bfloat16, float> unscaled(sizes);
    unscaled.w = separate.w;
    Masters b({{o, unscaled.source()}});
    for (unsigned step = 1; step <= 3; ++step) {
      folded.draw_grads(step);
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        for (std::size_t k = 0; k < sizes[i]; ++k) {
          unscaled.g[i][k] = float(folded.g[i][k]);
          folded.g[i][k] = amp::bfloat16(float(folded.g[i][k]) * scale);
        }
      }
      passes.clear();
      const amp::GradCheck found = a.check(1.f / scale);
      a.step(1.f / scale, static_cast<float>(amp::clip_factor(found.norm, 0.5)));
      CHECK(passes == std::vector<std::int64_t>{405, 405});
      CHECK(found.norm == amp::clip_grad_norm(unscaled.params(), 0.5));
      b.step();
      for (std::size_t i = 0; i < sizes.size(); ++i)
        for (std::size_t k = 0; k < sizes[i]; ++k) CHECK(folded.w[i][k].bits() == unscaled.w[i][k].bits());
    }
    amp::StateDict x, y;
    a.save(x), b.save(y);
    CHECK(x == y);  // masters and moments too
  }
  TEST_CASE("F1 a gradient that is not dense, or of another size, is no gradient of the parameter") {
    std::vector<float> w(4), g(3);
    CHECK_THROWS_WITH_AS(static_cast<void>(amp::make_param("w", w, g)), doctest::Contains("parameter w has 4 elements"),
                         amp::error);
  }
}
