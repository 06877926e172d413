#include <doctest/doctest.h>

#include <amp/half_traits.hpp>
#include <amp/simd/load.hpp>
#include <amp/simd/target.hpp>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "formats/reference.hpp"
#include "simd/targets.hpp"

#if defined(__x86_64__) && !defined(__clang__)
#include <immintrin.h>
#endif

using amp::bfloat16;
using amp::half;
using amp::simd::target;

namespace {

/// Whole vectors, then the tail.
template <class T>
struct widen {
  template <class V>
  AMP_INLINE static void run(const T* from, float* to, int n) {
    int i = 0;
    for (; i + amp::simd::lanes<V> <= n; i += amp::simd::lanes<V>)
      amp::simd::store(to + i, amp::simd::load<V>(from + i));
    if (i < n) amp::simd::store(to + i, amp::simd::load<V>(from + i, amp::simd::part{n - i}), amp::simd::part{n - i});
  }
};
template <class T>
struct narrow {
  template <class V>
  AMP_INLINE static void run(const float* from, T* to, int n) {
    int i = 0;
    for (; i + amp::simd::lanes<V> <= n; i += amp::simd::lanes<V>)
      amp::simd::store(to + i, amp::simd::load<V>(from + i));
    if (i < n) amp::simd::store(to + i, amp::simd::load<V>(from + i, amp::simd::part{n - i}), amp::simd::part{n - i});
  }
};
template <class T>
void widen_on(target t, const T* from, float* to, int n) {
  amp::simd::kernel<widen<T>, const T*, float*, int>(t)(from, to, n);
}
template <class T>
void narrow_on(target t, const float* from, T* to, int n) {
  amp::simd::kernel<narrow<T>, const float*, T*, int>(t)(from, to, n);
}

#if defined(__x86_64__) && !defined(__clang__)
__attribute__((target("f16c"))) std::uint16_t f16c_narrow(float x) {
  return static_cast<std::uint16_t>(_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT));
}
__attribute__((target("f16c"))) float f16c_widen(std::uint16_t x) { return _cvtsh_ss(x); }
#endif

}  // namespace

TEST_SUITE("simd/load") {
  TEST_CASE_TEMPLATE("N5 N10 all 65536 patterns widen to the scalar bits on every target, FTZ/DAZ set or not", T, half,
                     bfloat16) {
    std::vector<T> all;
    std::vector<std::uint32_t> expected;
    for (unsigned p = 0; p < 0x10000u; ++p) {
      all.push_back(T::from_bits(static_cast<std::uint16_t>(p)));
      expected.push_back(std::bit_cast<std::uint32_t>(float(all.back())));
    }
    for (const target t : test_simd::targets()) {
      for (const bool flushing : {false, true}) {
        std::vector<float> wide(all.size());
        {
          std::optional<amp::simd::flush_scope> flush;
          if (flushing) flush.emplace();
          widen_on(t, all.data(), wide.data(), static_cast<int>(all.size()));
        }
        unsigned wrong = 0;
        for (std::size_t i = 0; i < all.size(); ++i)
          wrong += std::bit_cast<std::uint32_t>(wide[i]) == expected[i] ? 0 : 1;
        CAPTURE(amp::simd::name(t));
        CAPTURE(flushing);
        CHECK(wrong == 0);
      }
    }
  }

  TEST_CASE_TEMPLATE("N2 N10 floats around every tie narrow to the scalar bits on every target, FTZ/DAZ set or not", T,
                     half, bfloat16) {
    const std::vector<float> floats = test_formats::structured_floats();
    std::vector<std::uint16_t> expected;
    for (const float x : floats) expected.push_back(T(x).bits());
    for (const target t : test_simd::targets()) {
      for (const bool flushing : {false, true}) {
        std::vector<T> low(floats.size());
        {
          std::optional<amp::simd::flush_scope> flush;
          if (flushing) flush.emplace();
          narrow_on(t, floats.data(), low.data(), static_cast<int>(floats.size()));
        }
        unsigned wrong = 0;
        for (std::size_t i = 0; i < floats.size(); ++i) wrong += low[i].bits() == expected[i] ? 0 : 1;
        CAPTURE(amp::simd::name(t));
        CAPTURE(flushing);
        CHECK(wrong == 0);
      }
    }
  }

  TEST_CASE_TEMPLATE("N10 tails of 1 to 33 at every offset give the same bits and touch nothing else", T, float, half,
                     bfloat16, amp::e5m2) {
    for (const target t : test_simd::targets()) {
      for (int n = 1; n <= 33; ++n) {
        for (int offset = 0; offset < 5; ++offset) {
          const auto size = static_cast<std::size_t>(n + offset);
          // Exactly as large as needed: a sanitizer sees what reads or writes beyond the end.
          const std::unique_ptr<T[]> low(new T[size]);
          const std::unique_ptr<float[]> wide(new float[size]);
          const std::unique_ptr<T[]> back(new T[size + 1]);
          for (std::size_t i = 0; i < size; ++i) low[i] = T(static_cast<float>(i * 37 + 1) * 0.01f);
          for (std::size_t i = 0; i <= size; ++i) back[i] = T(-7.f);
          widen_on(t, low.get() + offset, wide.get() + offset, n);
          narrow_on(t, wide.get() + offset, back.get() + offset, n);
          bool same = float(back[size]) == -7.f;
          for (int i = 0; i < offset; ++i) same = same && float(back[static_cast<std::size_t>(i)]) == -7.f;
          for (std::size_t i = static_cast<std::size_t>(offset); i < size; ++i) {
            same = same && wide[i] == float(low[i]) && float(back[i]) == float(low[i]);
          }
          CAPTURE(amp::simd::name(t));
          CAPTURE(n);
          CHECK(same);
        }
      }
    }
  }

#if defined(__x86_64__) && !defined(__clang__)
  TEST_CASE("N10 fp16 equals the processor's F16C on all patterns and around every tie") {
    if (__builtin_cpu_supports("f16c") == 0) {
      MESSAGE("no F16C here");
      return;
    }
    unsigned wrong = 0;
    for (unsigned p = 0; p < 0x10000u; ++p) {
      const auto x = static_cast<std::uint16_t>(p);
      wrong += std::bit_cast<std::uint32_t>(f16c_widen(x)) == std::bit_cast<std::uint32_t>(float(half::from_bits(x)))
                   ? 0
                   : 1;
    }
    for (const float x : test_formats::structured_floats()) wrong += f16c_narrow(x) == half(x).bits() ? 0 : 1;
    CHECK(wrong == 0);
  }
#endif
}
