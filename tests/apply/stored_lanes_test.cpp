#include <doctest/doctest.h>

#include <amp/apply/stored_lanes.hpp>
#include <amp/core/philox.hpp>
#include <amp/multi_tensor_apply.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "apply/tensors.hpp"
#include "simd/targets.hpp"

using amp::bfloat16;
using amp::completion;
using amp::dtype;
using amp::e4m3;
using amp::half;
using amp::multi_tensor_apply;
using amp::lane::pass;
using test_apply::Tensors;
namespace exec = amp::exec;
namespace lane = amp::lane;

namespace {
/// Lanes (weight, m, v, gradient), some arithmetic in all of them.
struct Move {
  template <class V>
  AMP_INLINE void operator()(V& w, V& m, V& v, const V& g) const {
    m = 0.9f * m + 0.1f * g;
    v = 0.99f * v + 0.01f * g * g;
    w = w - 0.01f * m;
  }
};
/// Lanes (weight, m, v, gradient): all become the gradient or its magnitude.
struct Take {
  template <class V>
  AMP_INLINE void operator()(V& w, V& m, V& v, const V& g) const {
    using amp::simd::abs;
    w = g;
    m = g;
    v = abs(g);
  }
};

/// Weights and two moments of some form, with all that belongs to them.
class Stored {
 public:
  Stored(const std::vector<std::int64_t>& sizes, dtype weight, completion form, dtype moment, std::int64_t block = 0,
         bool random_moments = false)
      : form_(form),
        block_(block),
        random_moments_(random_moments),
        w(sizes, {weight}),
        rest(sizes, {dtype::bf16}),
        m(sizes, {moment}),
        v(sizes, {moment}) {
    for (Tensors* t : {&w, &rest, &m, &v}) t->fill(0.f);
    for (std::size_t t = 0; t < sizes.size(); ++t) {
      none_.push_back({nullptr, sizes[t], dtype::fp32, false, {}});
      stream_.push_back(17 + t + (std::uint64_t{5} << 32));
    }
    for (auto& scales : scales_) {
      for (const std::int64_t size : sizes)
        scales.values.emplace_back(block == 0 ? 1u : static_cast<std::size_t>((size + block - 1) / block), 1.f);
      for (auto& s : scales.values) scales.present.push_back(s.data());
      scales.peak.resize(sizes.size());
    }
    scaled_[0] = form == completion::scale;
    scaled_[1] = scaled_[2] = moment != dtype::fp32 && moment != dtype::bf16;
  }

  template <class E, class F>
  void run(const E& executor, const F& functor, const Tensors& grads) {
    const auto go = [&](pass work) {
      multi_tensor_apply(executor, functor, weights(work), moments(m, 1, work), moments(v, 2, work),
                         lane::in(grads.list()));
    };
    if (block_ == 0 && (scaled_[0] || scaled_[1])) {
      for (auto& s : scales_) s.peak.assign(s.peak.size(), 0);
      go(pass::measure);
      for (std::size_t k = 0; k < 3; ++k) {
        auto& s = scales_[k];
        const dtype type = k == 0 ? w.list()[0].type : m.list()[0].type;
        s.next.clear();
        for (const auto peak : s.peak)
          s.next.push_back(amp::apply::scale_of_peak(peak, amp::apply::stored_range(type), k == 2 && root));
      }
    }
    go(pass::store);
    for (auto& s : scales_)
      for (std::size_t t = 0; t < s.next.size(); ++t) *s.present[t] = s.next[t];
  }
  [[nodiscard]] lane::weights weights(pass work) {
    lane::draw_list draws{};
    if (form_ == completion::random) draws = {42, stream_};
    return {w.list(), none_, rest.list(), form_, scale_list(0), draws, work};
  }
  [[nodiscard]] lane::moments moments(Tensors& of, std::size_t k, pass work) {
    lane::draw_list draws{};
    if (random_moments_) draws = {k, stream_};
    return {of.list(), scale_list(k), draws, work};
  }
  [[nodiscard]] const std::vector<float>& scale(std::size_t k, std::size_t t) const { return scales_[k].values[t]; }
  [[nodiscard]] std::uint64_t stream(std::size_t t) const { return stream_[t]; }
  /// Everything that is stored.
  [[nodiscard]] std::vector<unsigned char> bytes() const {
    std::vector<unsigned char> all;
    for (const Tensors* t : {&w, &rest, &m, &v}) {
      const auto part = t->bytes();
      all.insert(all.end(), part.begin(), part.end());
    }
    for (const auto& s : scales_)
      for (const auto& values : s.values) {
        const auto* first = reinterpret_cast<const unsigned char*>(values.data());
        all.insert(all.end(), first, first + values.size() * sizeof(float));
      }
    return all;
  }

 private:
  struct Scales {
    std::vector<std::vector<float>> values;
    std::vector<float*> present;
    std::vector<float> next;
    std::vector<std::uint32_t> peak;
  };
  [[nodiscard]] lane::scale_list scale_list(std::size_t k) {
    if (!scaled_[k]) return {};
    return {scales_[k].present, scales_[k].next, scales_[k].peak, block_, k == 2 && root};
  }
  completion form_;
  std::int64_t block_;
  bool random_moments_;

 public:
  Tensors w, rest, m, v;
  bool root = true;

 private:
  std::vector<amp::tensor_view> none_;
  std::vector<std::uint64_t> stream_;
  Scales scales_[3];
  bool scaled_[3] = {};
};

std::uint32_t word(float x) { return __builtin_bit_cast(std::uint32_t, x); }
float from_word(std::uint32_t x) { return __builtin_bit_cast(float, x); }
template <class T>
const T* data(const Tensors& t, std::size_t i = 0) {
  return static_cast<const T*>(t.list()[i].data);
}
}  // namespace

TEST_SUITE("apply/stored_lanes") {
  TEST_CASE("every form gives equal bits for all targets, chunk sizes and threads") {
    const std::vector<std::int64_t> sizes{0, 1, 33, 255, 256, 257, 512, 513, 0, 5000};
    struct Case {
      dtype weight;
      completion form;
      dtype moment;
      std::int64_t block;
      bool random;
    };
    constexpr std::int64_t block = amp::apply::scale_block;
    for (const Case c : {Case{dtype::bf16, completion::remainder, dtype::bf16, 0, false},
                         Case{dtype::bf16, completion::remainder, dtype::fp32, 0, false},
                         Case{dtype::bf16, completion::remainder, dtype::bf16, 0, true},
                         Case{dtype::bf16, completion::compensation, dtype::fp16, 0, false},
                         Case{dtype::fp16, completion::compensation, dtype::e4m3, 0, false},
                         Case{dtype::bf16, completion::random, dtype::bf16, 0, true},
                         Case{dtype::fp16, completion::scale, dtype::e4m3, 0, true},
                         Case{dtype::fp16, completion::random, dtype::e4m3, block, false},
                         Case{dtype::fp16, completion::scale, dtype::e5m2, block, false},
                         Case{dtype::fp32, completion::none, dtype::fp16, block, true}}) {
      CAPTURE(static_cast<int>(c.form));
      CAPTURE(static_cast<int>(c.moment));
      const auto result = [&](const auto& executor) {
        Stored s(sizes, c.weight, c.form, c.moment, c.block, c.random);
        for (unsigned step = 0; step < 3; ++step) {
          Tensors grads(sizes, {dtype::bf16});
          grads.randomize(step, 2.f);
          s.run(executor, Move{}, grads);
        }
        CHECK(s.w.guards_intact());
        CHECK(s.m.guards_intact());
        return s.bytes();
      };
      const auto expected = result(exec::scalar{});
      for (const auto target : test_simd::targets())
        CHECK(result(exec::vectorized{.chunk = 1024, .target = target}) == expected);
      CHECK(result(exec::vectorized{.fused = false}) == expected);
      if (c.block == 0) CHECK(result(exec::vectorized{.chunk = 100}) == expected);
      exec::threads pool(3);
      pool.chunk = 512;
      CHECK(result(pool) == expected);
    }
  }

  TEST_CASE("M11 every fp32 pattern survives the split into a bf16 weight and its remainder") {
    std::vector<std::uint32_t> patterns;
    for (std::uint32_t upper = 0; upper < 0x10000; ++upper)
      for (const std::uint32_t lower : {0x0u, 0x1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
        patterns.push_back(upper << 16 | lower);
    for (const std::uint32_t upper : {0x0u, 0x80u, 0x3f80u, 0x7f7fu, 0x7f80u, 0x8000u, 0xff7fu, 0xffffu})
      for (std::uint32_t lower = 0; lower < 0x10000; ++lower) patterns.push_back(upper << 16 | lower);
    const auto n = static_cast<std::int64_t>(patterns.size());
    Tensors values({n}, {dtype::fp32});
    std::memcpy(values.list()[0].data, patterns.data(), patterns.size() * 4);
    Stored s({n}, dtype::bf16, completion::remainder, dtype::fp32);
    std::vector<float> joined(static_cast<std::size_t>(n));
    for (const auto target : test_simd::targets()) {
      s.run(exec::vectorized{.target = target}, Take{}, values);
      const auto lane = s.weights(pass::read);
      alignas(64) float buffer[512];
      bool weights = true, rests = true, exact = true;
      for (std::int64_t i = 0; i < n; i += 512) {
        const std::int64_t count = std::min<std::int64_t>(512, n - i);
        const float* back = lane.stage<amp::simd::vec<float, 4>>(0, i, count, buffer);
        for (std::int64_t k = 0; k < count; ++k) {
          const std::uint32_t x = patterns[static_cast<std::size_t>(i + k)];
          exact &= word(back[k]) == x;
          weights &= data<bfloat16>(s.w)[i + k].bits() == static_cast<std::uint16_t>((x >> 16) + (x >> 15 & 1u));
          rests &= data<bfloat16>(s.rest)[i + k].bits() == static_cast<std::uint16_t>(x);
        }
      }
      CHECK(exact);
      CHECK(weights);
      CHECK(rests);
    }
  }
  TEST_CASE("M11 the weight beside a remainder is the nearest bf16, ties away from zero") {
    Tensors values({4}, {dtype::fp32});
    const std::uint32_t patterns[] = {0x3f808000u, 0x3f818000u, 0xbf808000u, 0x3f807fffu};
    std::memcpy(values.list()[0].data, patterns, sizeof patterns);
    Stored s({4}, dtype::bf16, completion::remainder, dtype::fp32);
    s.run(exec::vectorized{}, Take{}, values);
    CHECK(data<bfloat16>(s.w)[0].bits() == 0x3f81);  // to even it would be 0x3f80
    CHECK(data<bfloat16>(s.w)[1].bits() == 0x3f82);
    CHECK(data<bfloat16>(s.w)[2].bits() == 0xbf81);
    CHECK(data<bfloat16>(s.w)[3].bits() == 0x3f80);
  }

  TEST_CASE_TEMPLATE("M13 a compensated weight is the rounded value, and the compensation what the rounding left", T,
                     bfloat16, half) {
    Tensors values({2000}, {dtype::fp32});
    values.randomize(3, 40.f);
    values.set(0, 0, std::numeric_limits<float>::infinity());
    values.set(0, 1, 3.4e38f);
    values.set(0, 2, -0.f);
    Stored s({2000}, amp::dtype_of<T>, completion::compensation, dtype::fp32);
    s.run(exec::vectorized{}, Take{}, values);
    bool right = true;
    for (std::int64_t i = 0; i < 2000; ++i) {
      const float x = values.at(0, i);
      const T w(x);
      const bfloat16 c(std::isfinite(float(w)) ? x - float(w) : 0.f);
      right &= data<T>(s.w)[i].bits() == w.bits() && data<bfloat16>(s.rest)[i].bits() == c.bits();
    }
    CHECK(right);
  }

  TEST_CASE_TEMPLATE("N8 random rounding takes the word of the element's index, whatever cut the tensor", T, bfloat16,
                     half) {
    Tensors values({1500, 700}, {dtype::fp32});
    values.randomize(9, 3.f);
    Stored s({1500, 700}, amp::dtype_of<T>, completion::random, dtype::fp32);
    s.run(exec::vectorized{.chunk = 70}, Take{}, values);
    bool right = true;
    for (std::size_t t = 0; t < 2; ++t) {
      for (std::int64_t i = 0; i < values.list()[t].size; ++i) {
        const std::uint32_t random = amp::random_word(42, s.stream(t), static_cast<std::uint64_t>(i));
        right &= data<T>(s.w, t)[i].bits() == amp::half_traits<T>::encode_stochastic(word(values.at(t, i)), random);
      }
    }
    CHECK(right);
  }

  TEST_CASE_TEMPLATE("M12 a stored value is the value over absmax / R, rounded", T, half, e4m3) {
    constexpr float range = sizeof(T) == 1 ? 448.f : 65504.f / 2.f;
    Tensors values({900, 3, 1}, {dtype::fp32});
    values.randomize(4, 1e-3f);
    values.set(1, 0, 0.f), values.set(1, 1, -0.f), values.set(1, 2, 0.f);
    values.set(2, 0, std::numeric_limits<float>::infinity());
    Stored s({900, 3, 1}, dtype::fp32, completion::none, amp::dtype_of<T>);
    s.root = false;
    s.run(exec::vectorized{}, Take{}, values);
    float peak = 0.f;
    for (std::int64_t i = 0; i < 900; ++i) peak = std::max(peak, std::fabs(values.at(0, i)));
    const float scale = peak / range;
    CHECK(s.scale(1, 0)[0] == scale);
    bool right = true;
    float largest = 0.f;
    for (std::int64_t i = 0; i < 900; ++i) {
      right &= data<T>(s.m)[i].bits() == T(values.at(0, i) / scale).bits();
      largest = std::max(largest, std::fabs(s.m.at(0, i)));
    }
    CHECK(right);
    CHECK(largest == range);
    CHECK(s.scale(1, 1)[0] == 1.f);
    CHECK(s.m.at(1, 0) == 0.f);
    CHECK(s.scale(1, 2)[0] == 1.f);  // an infinite element leaves the scale finite and stays visible
    CHECK_FALSE(std::isfinite(s.m.at(2, 0)));
  }
  TEST_CASE("M12 with blocks each 256 elements have the scale of their own peak") {
    Tensors values({600}, {dtype::fp32});
    values.randomize(5, 1.f);
    for (std::int64_t i = 256; i < 512; ++i) values.set(0, i, values.at(0, i) * 1e-6f);
    Stored s({600}, dtype::fp32, completion::none, dtype::e4m3, amp::apply::scale_block);
    s.root = false;
    s.run(exec::vectorized{}, Take{}, values);
    REQUIRE(s.scale(1, 0).size() == 3);
    bool right = true;
    for (std::int64_t b = 0; b < 3; ++b) {
      const std::int64_t end = std::min<std::int64_t>(600, (b + 1) * 256);
      float peak = 0.f;
      for (std::int64_t i = b * 256; i < end; ++i) peak = std::max(peak, std::fabs(values.at(0, i)));
      const float scale = s.scale(1, 0)[static_cast<std::size_t>(b)];
      CHECK(scale == peak / 448.f);
      for (std::int64_t i = b * 256; i < end; ++i)
        right &= data<e4m3>(s.m)[i].bits() == e4m3(values.at(0, i) / scale).bits();
    }
    CHECK(right);
  }
  TEST_CASE("M12 squares in 8 bits are stored as roots, and a positive one never becomes 0") {
    Tensors values({5}, {dtype::fp32});
    const float squares[] = {4.f, 1.f, 1e-12f, 0.f, 1e-30f};
    for (std::int64_t i = 0; i < 5; ++i) values.set(0, i, squares[i]);
    Stored s({5}, dtype::fp32, completion::none, dtype::e4m3);
    s.run(exec::vectorized{}, Take{}, values);
    const float scale = s.scale(2, 0)[0];
    CHECK(scale == 2.f / 448.f);
    CHECK(s.v.at(0, 0) == 448.f);
    CHECK(s.v.at(0, 1) == 224.f);
    CHECK(s.v.at(0, 2) == 0x1p-9f);
    CHECK(s.v.at(0, 3) == 0.f);
    CHECK(s.v.at(0, 4) == 0x1p-9f);
    const auto lane = s.moments(s.v, 2, pass::read);
    alignas(64) float buffer[512];
    const float* back = lane.stage<amp::simd::vec<float, 4>>(0, 0, 5, buffer);
    CHECK(back[0] == doctest::Approx(4.f).epsilon(1e-6));
    CHECK(back[1] == doctest::Approx(1.f).epsilon(1e-6));
    CHECK(back[3] == 0.f);
  }
  TEST_CASE("a peak is the largest magnitude, NaN above infinity, on every target and tail") {
    for (const std::int64_t n : {1, 3, 15, 16, 17, 200}) {
      std::vector<float> x(static_cast<std::size_t>(n));
      std::iota(x.begin(), x.end(), 1.f);
      x.back() = -x.back();
      CHECK(amp::apply::peak_of<float>(x.data(), n) == word(static_cast<float>(n)));
      CHECK(amp::apply::peak_of<amp::simd::vec<float, 4>>(x.data(), n) == word(static_cast<float>(n)));
      x[0] = std::numeric_limits<float>::infinity();
      x.back() = n > 1 ? from_word(0xff800001u) : x[0];
      CHECK(amp::apply::peak_of<amp::simd::vec<float, 4>>(x.data(), n) == (n > 1 ? 0x7f800001u : 0x7f800000u));
    }
    CHECK(amp::apply::scale_of_peak(word(1e-38f), 448.f, false) == 0x1p-126f);
    CHECK(amp::apply::scale_of_peak(word(4.f), 448.f, true) == 2.f / 448.f);
    CHECK(amp::apply::stored_chunk(333) == 512);
    CHECK(amp::apply::stored_chunk(0) == 0);
  }
}
