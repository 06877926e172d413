#include "data/sampler.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "config/errors.hpp"

namespace data = clipbert::data;
using Indices = std::vector<std::size_t>;

namespace {
double no_draw() { throw std::logic_error("no draw is wanted here"); }

std::vector<std::int64_t> ticks(std::int64_t count) {
  std::vector<std::int64_t> pts;
  for (std::int64_t i = 0; i < count; ++i) pts.push_back(i * 10);
  return pts;
}
}  // namespace

TEST_SUITE("data/sampler") {
  TEST_CASE("uniform spans the whole video, with and without a duration") {
    const auto pts = ticks(60);
    for (const auto duration : {std::optional<std::int64_t>(600), std::optional<std::int64_t>()}) {
      const auto picked =
          data::pick_frames({pts, 60, duration, 10}, {.num_frm = 3, .strategy = data::Strategy::uniform}, no_draw);
      CHECK(picked.indices == Indices{0, 29, 59});
    }
  }

  TEST_CASE("clips lie evenly over the video, each from the first frame shown in its time") {
    const auto pts = ticks(16);
    for (std::int64_t clip = 0; clip < 4; ++clip) {
      data::ClipRequest request;
      request.target_fps = 8;
      request.clips = 4, request.clip = clip;
      CHECK(data::pick_frames({pts, 16, 160, 8}, request, no_draw).indices ==
            Indices{static_cast<std::size_t>(clip * 4)});
    }
  }

  TEST_CASE("B77 one frame, or a rate beyond measure, still gives every frame asked for") {
    const std::vector<std::int64_t> one = {0};
    CHECK(data::pick_frames({one, 1, 1, 25}, {.num_frm = 4}, [] { return 0.99; }).indices == Indices{0, 0, 0, 0});
    CHECK(data::pick_frames({one, 1, {}, 1e300}, {.num_frm = 2}, [] { return 0.5; }).indices == Indices{0, 0});
    const auto pts = ticks(5);
    CHECK(data::pick_frames({pts, 5, 50, 1e300}, {.num_frm = 2}, [] { return 0.5; }).indices == Indices{0, 4});
  }

  TEST_CASE("B82 frames are taken by time stamp, the last of equal ones") {
    const std::vector<std::int64_t> pts = {0, 20, 10, 30, 30};
    const auto picked =
        data::pick_frames({pts, 5, {}, 10}, {.num_frm = 4, .strategy = data::Strategy::uniform}, no_draw);
    CHECK(picked.indices == Indices{0, 2, 1, 4});
  }

  TEST_CASE("a duration that leads past the last frame gives nothing, so that the caller can pick by index") {
    const auto pts = ticks(5);
    data::ClipRequest request;
    request.target_fps = 100;
    request.clips = 4, request.clip = 3;
    const auto picked = data::pick_frames({pts, 5, 100000, 1}, request, no_draw);
    CHECK(picked.indices.empty());
    CHECK(picked.max_pts == 100000);
  }

  TEST_CASE("an unknown strategy is refused by name") {
    CHECK(data::strategy_of("middle") == data::Strategy::middle);
    CHECK_THROWS_WITH_AS((void)data::strategy_of("centre"), doctest::Contains("centre"), clipbert::usage_error);
  }
}
