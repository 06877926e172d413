/// Tensors stored in 8-bit formats as lists of multi_tensor_apply.
#include <doctest/doctest.h>

#include <amp/half_traits.hpp>
#include <amp/multi_tensor_apply.hpp>
#include <cmath>
#include <cstdint>
#include <vector>

namespace {

struct twice_plus {
  template <class V>
  AMP_INLINE void operator()(V& out, const V& a, const V& b) const {
    out = 2.f * a + b;
  }
};
struct copy {
  template <class V>
  AMP_INLINE void operator()(V& out, const V& in) const {
    out = in;
  }
};
struct halve {
  template <class V>
  AMP_INLINE void operator()(V& x) const {
    x = 0.5f * x;
  }
};

template <class T>
std::vector<T> filled(int n, float step) {
  std::vector<T> all;
  for (int i = 0; i < n; ++i) all.push_back(T(static_cast<float>(i % 97 - 48) * step));
  return all;
}

}  // namespace

TEST_SUITE("formats/lists") {
  TEST_CASE("N2 N10 lists of every 8-bit format mix with others and round as one value does") {
    const auto a = filled<amp::e4m3>(1003, 0.37f);
    const auto b = filled<amp::bfloat16>(1003, 1.9f);
    std::vector<amp::e5m2> e5m2(1003);
    std::vector<amp::e4m3fnuz> e4m3fnuz(1003);
    std::vector<amp::e5m2fnuz> e5m2fnuz(1003);
    std::vector<amp::e4m3> e4m3(1003);
    const std::vector<amp::tensor_view> in_a(4, amp::as_view(a)), in_b(4, amp::as_view(b));
    const std::vector<amp::tensor_view> out{amp::as_view(e5m2), amp::as_view(e4m3fnuz), amp::as_view(e5m2fnuz),
                                            amp::as_view(e4m3)};
    for (const auto isa : {amp::simd::target::scalar, amp::simd::target::best}) {
      amp::multi_tensor_apply(amp::exec::vectorized{.chunk = 333, .target = isa}, twice_plus{}, amp::lane::out(out),
                              amp::lane::in(in_a), amp::lane::in(in_b));
      unsigned wrong = 0;
      for (std::size_t i = 0; i < 1003; ++i) {
        const float exact = 2.f * float(a[i]) + float(b[i]);
        wrong += e5m2[i].bits() == amp::e5m2(exact).bits() ? 0 : 1;
        wrong += e4m3fnuz[i].bits() == amp::e4m3fnuz(exact).bits() ? 0 : 1;
        wrong += e5m2fnuz[i].bits() == amp::e5m2fnuz(exact).bits() ? 0 : 1;
        wrong += e4m3[i].bits() == amp::e4m3(exact).bits() ? 0 : 1;
      }
      CHECK(wrong == 0);
    }
  }

  TEST_CASE("N3 a checked output lane reports what its 8-bit format cannot hold") {
    const std::vector<float> in_range{1.f, 464.f, -448.f}, beyond{1.f, 465.f, 0.f};
    std::vector<amp::e4m3> low(3);
    const auto run = [&](const std::vector<float>& from) {
      const std::vector<amp::tensor_view> in{amp::as_view(from)}, out{amp::as_view(low)};
      amp::nonfinite_report report;
      amp::multi_tensor_apply(amp::exec::vectorized{}, copy{}, amp::lane::out(out).check(report), amp::lane::in(in));
      return report.found();
    };
    CHECK_FALSE(run(in_range));
    CHECK(float(low[1]) == 448.f);
    CHECK(run(beyond));
    CHECK(std::isnan(float(low[1])));
  }

  TEST_CASE("an 8-bit list is read and written in place from any byte") {
    std::vector<amp::e5m2> values = filled<amp::e5m2>(300, 4.f);
    const std::vector<amp::e5m2> before = values;
    const std::vector<amp::tensor_view> list{amp::as_view(values.data() + 3, 290)};
    amp::multi_tensor_apply(amp::exec::vectorized{}, halve{}, amp::lane::inout(list));
    bool same = true;
    for (std::size_t i = 0; i < 300; ++i)
      same = same && float(values[i]) == (i < 3 || i >= 293 ? 1.f : 0.5f) * float(before[i]);
    CHECK(same);
  }
}
