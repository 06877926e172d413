#include <doctest/doctest.h>

#include <amp/optim/executor.hpp>
#include <vector>

TEST_SUITE("optim/executor") {
  TEST_CASE("any executor keeps what it holds: chunk, path, target and how it runs") {
    const amp::exec::any scalar = amp::exec::scalar{.chunk = 7, .fused = false};
    CHECK(scalar.chunk == 7);
    CHECK_FALSE(scalar.fused);
    CHECK(scalar.isa() == amp::simd::target::scalar);
    const amp::exec::any base = amp::exec::vectorized{.target = amp::simd::target::base};
    CHECK(base.isa() == amp::simd::target::base);
    for (const amp::exec::any& executor : {scalar, base, amp::exec::any(amp::exec::threads(3))}) {
      std::vector<int> seen(100, 0);
      const auto task = [&](std::int64_t i) { ++seen[static_cast<std::size_t>(i)]; };
      executor.run(100, 1000000, amp::apply::task_ref(task));
      CHECK(seen == std::vector<int>(100, 1));
    }
  }
}
