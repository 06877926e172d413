#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#if defined(__GLIBC__)
#include <malloc.h>
#endif
#if defined(__SANITIZE_ADDRESS__)  // declared here: not every package of the sanitizer has its header
extern "C" std::size_t __sanitizer_get_current_allocated_bytes();
#endif

#include "master_weights/instances.hpp"
#include "support/skip.hpp"

template class amp::MasterWeights<amp::Adam>;

using amp::Adam;
using amp::bfloat16;
using amp::dtype;
using amp::masters;
using amp::MasterWeights;
using amp::moment_formats;
using amp::scale_per;
using reference::Tensors;
using namespace test_masters;

namespace {
/// Bytes that the process holds from the allocator; 0 where nobody counts them.
std::size_t allocated() {
#if defined(__SANITIZE_ADDRESS__)
  return __sanitizer_get_current_allocated_bytes();
#elif defined(__SANITIZE_THREAD__)
  return 0;
#elif defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
#else
  return 0;
#endif
}
/// An executor that looks at the memory while it works.
struct Watched {
  std::int64_t chunk = amp::apply::default_chunk;
  bool fused = true;
  std::size_t* most = nullptr;

  [[nodiscard]] static amp::simd::target isa() noexcept { return amp::simd::target::best; }
  void run(std::int64_t items, std::int64_t /*elements*/, amp::apply::task_ref task) const {
    for (std::int64_t i = 0; i < items; ++i) {
      task(i);
      *most = std::max(*most, allocated());
    }
  }
};
/// Bytes a parameter that a bf16 weight, its gradient, the master and the moments take after a step.
double bytes_per_parameter(const amp::storage_options& storage) {
  constexpr std::size_t n = 1u << 20;
  const std::size_t before = allocated();
  std::vector<bfloat16> w(n, bfloat16(1.f)), g(n, bfloat16(0.5f));
  const auto source = std::make_shared<amp::FixedParams>(std::vector{amp::make_param("w", w, g)});
  MasterWeights<Adam> m({{Adam{.lr = 0.01}, source, {}}}, storage);
  m.step();
  const auto taken = static_cast<double>(allocated() - before) / static_cast<double>(n);
  const auto told = static_cast<double>(m.master_bytes() + m.moment_bytes()) / static_cast<double>(n) + 4.;
  CHECK(taken == doctest::Approx(told).epsilon(0.002));
  return taken;
}
}  // namespace

TEST_SUITE("master_weights/memory") {
  TEST_CASE(
      "M11 M12 O2 with Adam takes 16 bytes a parameter, 14 with remainders, 10 with bf16 moments, 8 with fp8 ones") {
    if (allocated() == 0) {
      test_support::skip("this allocator does not tell what it holds");
      return;
    }
    const auto near = [](double bytes) { return doctest::Approx(bytes).epsilon(0.003); };
    CHECK(bytes_per_parameter({}) == near(16.));
    CHECK(bytes_per_parameter({.masters = masters::remainder}) == near(14.));
    CHECK(bytes_per_parameter({.masters = masters::remainder, .moments = dtype::bf16}) == near(10.));
    CHECK(bytes_per_parameter({.masters = masters::remainder, .moments = dtype::e4m3}) == near(8.));
    CHECK(bytes_per_parameter({.masters = masters::remainder, .moments = dtype::e4m3, .scales = scale_per::block}) ==
          near(8. + 2. * 4. / 256.));
    CHECK(bytes_per_parameter({.masters = masters::kahan}) == near(14.));
    CHECK(bytes_per_parameter({.masters = masters::fp16}) == near(14.));
    CHECK(bytes_per_parameter({.masters = masters::stochastic, .moments = {dtype::e4m3, dtype::fp16}}) == near(7.));
    CHECK(bytes_per_parameter({.masters = masters::none, .moments = dtype::fp16}) == near(8.));
    CHECK(bytes_per_parameter({.flat = true}) == near(16.));
  }
  TEST_CASE("M7 gradients put aside in their own format take 2 bytes a parameter, in fp32 4, and are given back") {
    if (allocated() == 0) {
      test_support::skip("this allocator does not tell what it holds");
      return;
    }
    for (const bool low : {false, true}) {
      constexpr std::size_t n = 1u << 20;
      std::vector<bfloat16> w(n, bfloat16(1.f)), g(n, bfloat16(0.5f));
      const auto source = std::make_shared<amp::FixedParams>(std::vector{amp::make_param("w", w, g)});
      MasterWeights<amp::Sgd> m({{amp::Sgd{.lr = 0.01}, source, {}}}, {.low_stash = low});
      m.step();
      const std::size_t before = allocated();
      m.stash(1.f, true);
      const auto taken = static_cast<double>(allocated() - before) / static_cast<double>(n);
      CHECK(taken == doctest::Approx(low ? 2. : 4.).epsilon(0.01));
      m.step();
      CHECK(static_cast<double>(allocated()) == doctest::Approx(static_cast<double>(before)).epsilon(0.01));
    }
  }
  TEST_CASE("the common step writes no fp32 gradients, asking for them does") {
    if (allocated() == 0) {
      test_support::skip("this allocator does not tell what it holds");
      return;
    }
    Tensors<bfloat16> t({1u << 20});
    std::size_t most = 0;
    MasterWeights<Adam> m(group(Adam{.lr = 0.01}, t), {}, Watched{.most = &most});
    m.step();
    const std::size_t before = allocated();
    most = 0;
    for (int i = 0; i < 3; ++i) {
      CHECK_FALSE(m.check(0.5f).overflow);
      m.step(0.5f, 0.25f);
    }
    CHECK(most >= before);
    CHECK(most - before < 100000u);  // during the passes, too
    m.for_each_master([](const amp::MasterView&) {});
    CHECK(allocated() - before > std::size_t{4} << 20);
    m.skip();
    CHECK(allocated() - before < 100000u);
  }
}
