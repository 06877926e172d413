/// Frames to the model's input: fitted into a square, padded right and below with zeros, normalised.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "data/video.hpp"

namespace clipbert::data {

struct Size {
  int height = 0, width = 0;
  bool operator==(const Size&) const = default;
};
/// The longer side becomes `longest`, the other one keeps the ratio, cut to an integer.
[[nodiscard]] Size target_size(Size size, int longest);

/// True if the longer side is more than `limit` times the shorter.
[[nodiscard]] bool too_elongated(Size size, double limit = 5.0);

/// Bilinear with half-pixel centres and no antialias, as torch's interpolate(align_corners=False), then padded.
/// shape   pixels (height, width, 3) 8 bit; out (3, longest, longest) floats in [0, 255]
/// throws  content_error if the smaller side would vanish
void fit_and_pad(std::span<const std::uint8_t> pixels, Size size, int longest, std::span<float> out);

struct Normalisation {
  std::array<float, 3> mean = {123.675f, 116.28f, 103.53f};
  std::array<float, 3> std = {1.0f, 1.0f, 1.0f};
};
/// (x - mean) / std per channel, in place; values above 1 are first divided by 255 where no mean is above 1.
/// shape   values (pictures, 3, area)
void normalise(std::span<float> values, std::size_t area, const Normalisation& how);

}  // namespace clipbert::data
