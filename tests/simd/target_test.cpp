#include <doctest/doctest.h>

#include <amp/simd/target.hpp>
#include <set>
#include <string_view>

using amp::simd::target;

namespace {
struct width {
  template <class V>
  AMP_INLINE static void run(int* out) {
    *out = amp::simd::lanes<V>;
  }
};
AMP_NOINLINE float product(float a, float b) {
  volatile float x = a;  // nothing is computed at compile time, nor moved out of a scope
  volatile float y = b;
  volatile float z = x * y;
  return z;
}
}  // namespace

TEST_SUITE("simd/target") {
  TEST_CASE("the best target is supported, scalar and base always are, and each has its width") {
    CHECK(amp::simd::supported(amp::simd::best_target()));
    CHECK(amp::simd::supported(target::scalar));
    CHECK(amp::simd::supported(target::base));
    CHECK(amp::simd::resolve(target::best) == amp::simd::best_target());
    CHECK(amp::simd::resolve(target::base) == target::base);
    for (const auto& [t, lanes] :
         {std::pair{target::scalar, 1}, {target::base, 4}, {target::avx2, 8}, {target::avx512, 16}}) {
      int seen = 0;
      if (!amp::simd::supported(t)) continue;
      amp::simd::kernel<width, int*>(t)(&seen);
      CHECK(seen == lanes);
    }
  }

  TEST_CASE("a target that the processor lacks is refused in words") {
    for (const target t : {target::avx2, target::avx512}) {
      if (!amp::simd::supported(t)) {
        CHECK_THROWS_WITH_AS(static_cast<void>(amp::simd::resolve(t)), doctest::Contains("use target::best"),
                             amp::error);
      }
    }
    CHECK(amp::simd::name(target::avx512) == "avx512");
  }

#if AMP_X86
  TEST_CASE("a flush scope flushes subnormals while it lives and restores what was set") {
    CHECK(product(1e-30f, 1e-10f) > 0.f);
    {
      const amp::simd::flush_scope outer;
      CHECK(product(1e-30f, 1e-10f) == 0.f);
      CHECK(product(1e-40f, 1e10f) == 0.f);
      { const amp::simd::flush_scope inner; }
      CHECK(product(1e-30f, 1e-10f) == 0.f);
    }
    CHECK(product(1e-30f, 1e-10f) > 0.f);
  }
#endif
  TEST_CASE("each target has a name of its own, and none that is not one") {
    std::set<std::string_view> names;
    for (int i = 0; i <= static_cast<int>(amp::simd::target::avx512); ++i) {
      names.insert(amp::simd::name(static_cast<amp::simd::target>(i)));
    }
    CHECK(names.size() == 5);
    CHECK_FALSE(names.contains(amp::simd::name(static_cast<amp::simd::target>(77))));
    CHECK_FALSE(names.contains("unknown"));
  }
}
