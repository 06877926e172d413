#include <doctest/doctest.h>

#include <amp/apply/thread_pool.hpp>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

TEST_SUITE("apply/thread_pool") {
  TEST_CASE("every task runs once, round after round, with any number of threads") {
    for (const int threads : {1, 2, 5}) {
      amp::apply::thread_pool pool(threads);
      CHECK(pool.size() == threads);
      for (int round = 0; round < 200; ++round) {
        std::vector<std::atomic<int>> seen(static_cast<std::size_t>(round % 7));
        const auto task = [&](std::int64_t i) { ++seen[static_cast<std::size_t>(i)]; };
        pool.run(static_cast<std::int64_t>(seen.size()), amp::apply::task_ref(task));
        bool once = true;
        for (const auto& count : seen) once = once && count == 1;
        CHECK(once);
      }
    }
  }

  TEST_CASE("calls from several threads take turns") {
    amp::apply::thread_pool pool(3);
    std::atomic<std::int64_t> sum{0};
    std::vector<std::thread> callers;
    for (int c = 0; c < 4; ++c) {
      callers.emplace_back([&] {
        for (int round = 0; round < 50; ++round) {
          const auto task = [&](std::int64_t i) { sum += i; };
          pool.run(10, amp::apply::task_ref(task));
        }
      });
    }
    for (auto& caller : callers) caller.join();
    CHECK(sum == 4 * 50 * 45);
  }
}
