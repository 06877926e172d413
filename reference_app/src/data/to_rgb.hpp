/// Decoded pictures to upright 8-bit RGB. Private to this folder.
#pragma once
#include <cstdint>
#include <vector>

#include "data/libav.hpp"
#include "data/video.hpp"

namespace clipbert::data {

/// How a stored picture is shown: first left and right change places if `mirror`, then it turns clockwise.
struct Orientation {
  int rotation = 0;  ///< 0, 90, 180 or 270 degrees
  bool mirror = false;
};
/// The nearest of the eight orientations to a display matrix of libav (nine values, 16.16 fixed point).
[[nodiscard]] Orientation orientation_of(const std::int32_t* matrix);

/// Converts frames of any format to RGB of one stored size, then turns them upright.
class RgbConverter {
 public:
  RgbConverter() = default;
  RgbConverter(int coded_width, int coded_height, Orientation orientation)
      : width_(coded_width), height_(coded_height), orientation_(orientation) {}

  /// throws  content_error (reason only) if libav has no path from this pixel format to RGB
  [[nodiscard]] Frame operator()(const AVFrame& picture);

 private:
  void prepare(const AVFrame& picture);
  void turn_upright(Frame& out) const;

  int width_ = 0, height_ = 0;
  Orientation orientation_;
  av::SwsPtr scaler_;
  int source_width_ = 0, source_height_ = 0, source_format_ = -1, source_range_ = -1, source_matrix_ = -1;
  std::vector<std::uint8_t> rows_;  // rows with room behind them: the scaler's vector code writes past a row's end
  std::size_t stride_ = 0;
};

}  // namespace clipbert::data
