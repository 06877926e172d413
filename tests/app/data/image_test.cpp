#include "data/image.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "config/errors.hpp"

namespace data = clipbert::data;

TEST_SUITE("data/image") {
  TEST_CASE("a picture of the target's size is copied, channels apart, zeros below and right") {
    const std::vector<std::uint8_t> pixels = {1, 2, 3, 4, 5, 6};  // 2 pixels wide, 1 high
    std::vector<float> out(12, 99.0f);
    data::fit_and_pad(pixels, {1, 2}, 2, out);
    CHECK(out == std::vector<float>{1, 4, 0, 0, 2, 5, 0, 0, 3, 6, 0, 0});
  }

  TEST_CASE("a picture grows with half-pixel centres") {
    const std::vector<std::uint8_t> pixels = {0, 0, 0, 100, 100, 100, 0, 0, 0, 100, 100, 100};  // 2 x 2
    std::vector<float> out(48);
    data::fit_and_pad(pixels, {2, 2}, 4, out);
    for (std::size_t row = 0; row < 4; ++row) {
      CHECK(out[row * 4 + 0] == 0.0f);
      CHECK(out[row * 4 + 1] == 25.0f);
      CHECK(out[row * 4 + 2] == 75.0f);
      CHECK(out[row * 4 + 3] == 100.0f);
    }
  }

  TEST_CASE("padding becomes minus the mean") {
    std::vector<float> values = {10, 0, 20, 0, 30, 0};
    data::normalise(values, 2, {{1.5f, 2, 3}, {2, 2, 1}});
    CHECK(values == std::vector<float>{4.25f, -0.75f, 9, -1, 27, -3});
  }

  TEST_CASE("sides over 5 to 1 are too long, a side that would vanish is an error") {
    CHECK_FALSE(data::too_elongated({100, 500}));
    CHECK(data::too_elongated({100, 501}));
    CHECK(data::too_elongated({501, 100}));
    const std::vector<std::uint8_t> pixels(300);
    std::vector<float> out(3 * 16);
    CHECK_THROWS_AS(data::fit_and_pad(pixels, {1, 100}, 4, out), clipbert::content_error);
  }
}
