#include "data/image.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "config/errors.hpp"

namespace clipbert::data {
namespace {

/// For each output position the two source positions and the weight of the second.
struct Taps {
  std::vector<std::size_t> near, far;
  std::vector<float> weight;
};

Taps taps(int from, int to) {
  Taps result;
  const float scale = static_cast<float>(from) / static_cast<float>(to);
  for (int i = 0; i < to; ++i) {
    const float at = std::max((static_cast<float>(i) + 0.5f) * scale - 0.5f, 0.0f);
    const int near = std::min(static_cast<int>(at), from - 1);
    result.near.push_back(static_cast<std::size_t>(near));
    result.far.push_back(static_cast<std::size_t>(std::min(near + 1, from - 1)));
    result.weight.push_back(std::clamp(at - static_cast<float>(near), 0.0f, 1.0f));
  }
  return result;
}

/// Source rows at the width of the result, one colour after the other. The last two are kept: what grows needs each row
/// many times.
class RowStretcher {
 public:
  RowStretcher(std::span<const std::uint8_t> pixels, std::size_t row_bytes, const Taps& across)
      : pixels_(pixels), row_bytes_(row_bytes), across_(across) {
    for (auto& row : rows_) row.resize(3 * across.near.size());
  }
  const float* operator()(std::size_t source_row) {
    std::vector<float>& row = rows_[source_row % 2];
    if (numbers_[source_row % 2] != source_row) stretch(pixels_.data() + source_row * row_bytes_, row);
    numbers_[source_row % 2] = source_row;
    return row.data();
  }

 private:
  void stretch(const std::uint8_t* from, std::vector<float>& row) const {
    const std::size_t width = across_.near.size();
    for (std::size_t x = 0; x < width; ++x) {
      const std::uint8_t *left = from + across_.near[x] * 3, *right = from + across_.far[x] * 3;
      const float h = across_.weight[x];
      for (std::size_t c = 0; c < 3; ++c) row[c * width + x] = (1.0f - h) * left[c] + h * right[c];
    }
  }

  std::span<const std::uint8_t> pixels_;
  std::size_t row_bytes_;
  const Taps& across_;
  std::array<std::vector<float>, 2> rows_;
  std::array<std::size_t, 2> numbers_{~std::size_t{0}, ~std::size_t{0}};
};

}  // namespace

Size target_size(Size size, int longest) {
  const auto scaled = [longest](int shorter, int longer) {
    return static_cast<int>(longest * (shorter * 1.0 / longer));
  };
  if (size.height >= size.width) return {longest, scaled(size.width, size.height)};
  return {scaled(size.height, size.width), longest};
}

bool too_elongated(Size size, double limit) {
  const double ratio = size.height / static_cast<double>(size.width);
  return ratio > limit || ratio < 1.0 / limit;
}

void fit_and_pad(std::span<const std::uint8_t> pixels, Size size, int longest, std::span<float> out) {
  const Size target = target_size(size, longest);
  if (target.height < 1 || target.width < 1) {
    throw content_error("a picture of " + std::to_string(size.width) + "x" + std::to_string(size.height) +
                        " has nothing left at max_img_size " + std::to_string(longest));
  }
  const auto side = static_cast<std::size_t>(longest);
  std::fill(out.begin(), out.end(), 0.0f);
  const std::size_t row = static_cast<std::size_t>(size.width) * 3;
  if (target == size) {
    for (std::size_t y = 0; y < static_cast<std::size_t>(size.height); ++y) {
      for (std::size_t x = 0; x < static_cast<std::size_t>(size.width); ++x) {
        for (std::size_t c = 0; c < 3; ++c) out[(c * side + y) * side + x] = pixels[y * row + x * 3 + c];
      }
    }
    return;
  }
  const Taps down = taps(size.height, target.height), across = taps(size.width, target.width);
  RowStretcher stretched(pixels, row, across);
  for (std::size_t y = 0; y < down.near.size(); ++y) {
    const float v = down.weight[y];
    const float* top = stretched(down.near[y]);
    const float* bottom = stretched(down.far[y]);
    for (std::size_t c = 0; c < 3; ++c) {
      float* to = out.data() + (c * side + y) * side;
      const std::size_t width = across.near.size(), from = c * width;
      for (std::size_t x = 0; x < width; ++x) to[x] = (1.0f - v) * top[from + x] + v * bottom[from + x];
    }
  }
}

void normalise(std::span<float> values, std::size_t area, const Normalisation& how) {
  const bool unit_mean = *std::max_element(how.mean.begin(), how.mean.end()) <= 1.0f;
  if (unit_mean && !values.empty() && *std::max_element(values.begin(), values.end()) > 1.0f) {
    for (float& value : values) value /= 255.0f;
  }
  for (std::size_t plane = 0; plane * area < values.size(); ++plane) {
    const float mean = how.mean[plane % 3], std = how.std[plane % 3];
    for (float& value : values.subspan(plane * area, area)) value = (value - mean) / std;
  }
}

}  // namespace clipbert::data
