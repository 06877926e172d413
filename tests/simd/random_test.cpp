#include <doctest/doctest.h>

#include <amp/half_traits.hpp>
#include <amp/simd/random.hpp>
#include <amp/simd/target.hpp>
#include <cstdint>
#include <vector>

#include "formats/reference.hpp"
#include "simd/targets.hpp"

using amp::simd::target;

namespace {

struct fill {
  template <class V>
  AMP_INLINE static void run(std::int64_t first, std::int64_t n, std::uint32_t* to) {
    amp::simd::random_words<V>(0x1234567890abcdefu, 0xfedcba0987654321u, first, n, to);
  }
};

/// Rounds n floats stochastically, tail included, with the given words.
template <class T>
struct round_down_or_up {
  template <class V>
  AMP_INLINE static void run(const float* from, const std::uint32_t* random, T* to, int n) {
    using namespace amp::simd;
    int i = 0;
    for (; i + lanes<V> <= n; i += lanes<V>) store_stochastic(to + i, load<V>(from + i), load_words<V>(random + i));
    if constexpr (lanes < V >> 1) {
      std::uint32_t rest[16] = {};
      for (int k = 0; k < n - i; ++k) rest[k] = random[i + k];
      if (i < n) store_stochastic(to + i, load<V>(from + i, part{n - i}), load_words<V>(rest), part{n - i});
    }
  }
};

}  // namespace

TEST_SUITE("simd/random") {
  TEST_CASE("N8 N10 every target gives each element its word, from any start and for any count") {
    std::vector<std::uint32_t> expected;
    for (std::uint64_t i = 0; i < 400; ++i)
      expected.push_back(amp::random_word(0x1234567890abcdefu, 0xfedcba0987654321u, i));
    for (const target t : test_simd::targets()) {
      const auto kernel = amp::simd::kernel<fill, std::int64_t, std::int64_t, std::uint32_t*>(t);
      unsigned wrong = 0;
      for (const std::int64_t first : {0, 1, 15, 16, 63, 64, 65, 100}) {
        for (const std::int64_t n : {0, 1, 7, 63, 64, 65, 128, 300}) {
          std::vector<std::uint32_t> got(static_cast<std::size_t>(n) + 1, 77u);
          kernel(first, n, got.data());
          for (std::int64_t i = 0; i < n; ++i)
            wrong += got[static_cast<std::size_t>(i)] == expected[static_cast<std::size_t>(first + i)] ? 0 : 1;
          wrong += got.back() == 77u ? 0 : 1;
        }
      }
      // Beyond 2^32 counters the second word of the counter is used.
      std::vector<std::uint32_t> far(64);
      const std::int64_t first = (std::int64_t{1} << 36) + 64;
      kernel(first, 64, far.data());
      for (std::int64_t i = 0; i < 64; ++i)
        wrong += far[static_cast<std::size_t>(i)] == amp::random_word(0x1234567890abcdefu, 0xfedcba0987654321u,
                                                                      static_cast<std::uint64_t>(first + i))
                     ? 0
                     : 1;
      CAPTURE(amp::simd::name(t));
      CHECK(wrong == 0);
    }
  }

  TEST_CASE_TEMPLATE("N8 N10 stochastic rounding gives the scalar bits on every target, FTZ and DAZ set or not", T,
                     amp::half, amp::bfloat16, amp::e4m3, amp::e5m2) {
    const std::vector<float> floats = test_formats::structured_floats();
    std::vector<std::uint32_t> random(floats.size());
    for (std::size_t i = 0; i < random.size(); ++i) random[i] = amp::random_word(5, 0, i);
    std::vector<unsigned> expected;
    for (std::size_t i = 0; i < floats.size(); ++i)
      expected.push_back(amp::half_traits<T>::encode_stochastic(std::bit_cast<std::uint32_t>(floats[i]), random[i]));
    for (const target t : test_simd::targets()) {
      for (const bool flushing : {false, true}) {
        std::vector<T> got(floats.size());
        {
          const auto kernel = amp::simd::kernel<round_down_or_up<T>, const float*, const std::uint32_t*, T*, int>(t);
          const auto run = [&] { kernel(floats.data(), random.data(), got.data(), static_cast<int>(floats.size())); };
          if (flushing) {
            const amp::simd::flush_scope scope;
            run();
          } else {
            run();
          }
        }
        unsigned wrong = 0;
        for (std::size_t i = 0; i < floats.size(); ++i) wrong += got[i].bits() == expected[i] ? 0 : 1;
        CAPTURE(amp::simd::name(t));
        CAPTURE(flushing);
        CHECK(wrong == 0);
      }
    }
  }
}
