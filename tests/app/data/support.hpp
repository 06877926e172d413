/// A folder of its own for each test, and small files to put there.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "data/video.hpp"
#include "support/errors.hpp"
#include "support/temp_folder.hpp"

namespace test_support {

inline std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Frame number n has n bright columns of 4 pixels at the left, and a red, a green and a blue patch below.
inline std::vector<clipbert::data::Frame> counted_frames(int count, int width = 96, int height = 64) {
  std::vector<clipbert::data::Frame> frames;
  for (int n = 0; n < count; ++n) {
    clipbert::data::Frame frame{width, height, 0, {}};
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        const int patch = x * 3 / width;
        const bool top = y < height / 2, lit = x < 4 * n;
        for (int c = 0; c < 3; ++c) {
          frame.rgb.push_back(static_cast<std::uint8_t>(top ? (lit ? 230 : 20) : (c == patch ? 200 : 40)));
        }
      }
    }
    frames.push_back(std::move(frame));
  }
  return frames;
}

/// The number of bright columns of such a frame.
inline int count_of(const clipbert::data::Frame& frame) {
  int bright = 0;
  for (int x = 2; x < frame.width; x += 4) {
    const auto at = (static_cast<std::size_t>(frame.height / 4) * static_cast<std::size_t>(frame.width) +
                     static_cast<std::size_t>(x)) *
                    3;
    bright += frame.rgb[at] > 125 ? 1 : 0;
  }
  return bright;
}

}  // namespace test_support
