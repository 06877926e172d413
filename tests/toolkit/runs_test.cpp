/// Whole runs: many steps, several ranks, several threads.
#include <doctest/doctest.h>

#include <amp/optim/adam.hpp>
#include <amp/session.hpp>
#include <array>
#include <barrier>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "toolkit/net.hpp"

using toolkit_test::masters;
using toolkit_test::Net;

namespace {

using Session = decltype(amp::initialize<amp::O2>(Net<float>{}, amp::Adam{}));

Session make_session(amp::init_options<amp::DynamicScale> options) {
  return amp::initialize<amp::O2>(Net<float>{}, amp::Adam{.lr = 1e-3}, std::move(options));
}
/// One step; the gradient of `b` is as large as the loss scale, so that fp16 holds it up to 2^15 / 0.125.
amp::Verdict train(Session& session, float base = 1.f, bool poison = false) {
  session.zero_grad();
  amp::scale_loss(1.f, session, [&](float s) {
    session.model().backward(s, base);
    if (poison) session.model().a_grad[1] = amp::half(std::numeric_limits<float>::infinity());
  });
  return session.step();
}

}  // namespace

TEST_SUITE("toolkit/runs") {
  TEST_CASE(
      "B04 in five thousand steps each change of the scale is one line with old and new scale, and the skips are "
      "counted") {
    std::vector<std::string> lines;
    auto session =
        make_session({.scale = {.init = 1024.f, .window = 200}, .log = [&](auto line) { lines.emplace_back(line); }});
    int changes = 0, skips = 0;
    for (int step = 0; step < 5000; ++step) {
      const float before = session.loss_scale();
      if (train(session) == amp::Verdict::skip) ++skips;
      if (session.loss_scale() != before) ++changes;
    }
    CHECK(skips >= 4);
    CHECK(skips <= 5000 / 200);  // about one a window, and never more
    CHECK(session.skipped() == skips);
    CHECK(session.steps() + session.skipped() == 5000);
    REQUIRE(static_cast<int>(lines.size()) == changes);
    CHECK(lines.front() == "loss scale 0: 1024 -> 2048, no overflow in a whole window");
    for (const auto& line : lines) {
      CHECK(line.find(" -> ") != std::string::npos);
      CHECK(line.find('\n') == std::string::npos);
    }
  }

  TEST_CASE("B07 X3 an overflow on one of two ranks skips the step on both, and their scales and weights stay equal") {
    std::array<bool, 2> flags{};
    std::barrier meet(2);
    std::array<std::vector<float>, 2> ends, scales;
    std::array<std::int64_t, 2> skipped{};
    const auto rank = [&](std::size_t me) {
      const auto any = [&, me](bool mine) {
        flags[me] = mine;
        meet.arrive_and_wait();
        const bool all = flags[0] || flags[1];
        meet.arrive_and_wait();
        return all;
      };
      auto session = make_session({.scale = {.init = 256.f, .window = 4}, .any_reduce = any});
      for (int step = 0; step < 30; ++step) {
        train(session, 1.f, me == 1 && step % 7 == 3);  // only the second rank's share of the gradients is spoiled
        scales[me].push_back(session.loss_scale());
      }
      ends[me] = masters(session);
      skipped[me] = session.skipped();
    };
    std::thread other(rank, 1);
    rank(0);
    other.join();
    CHECK(skipped == std::array<std::int64_t, 2>{4, 4});
    CHECK(scales[0] == scales[1]);
    CHECK(ends[0] == ends[1]);
  }

  TEST_CASE("X3 X4 sessions on threads of their own train to the same bits as one alone") {
    const auto run = [] {
      auto session = make_session({.scale = {.init = 256.f}, .exec = amp::exec::threads(2)});
      for (int step = 0; step < 20; ++step) train(session, 1.f + 0.1f * static_cast<float>(step % 3));
      return masters(session);
    };
    const auto alone = run();
    std::array<std::vector<float>, 4> ends;
    std::vector<std::thread> threads;
    for (auto& end : ends) threads.emplace_back([&] { end = run(); });
    for (auto& thread : threads) thread.join();
    for (const auto& end : ends) CHECK(end == alone);
  }
}
