#include "data/to_rgb.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <string>

#include "config/errors.hpp"

namespace clipbert::data {
namespace {

/// The modern name of a "yuvj" format, whose range is full whatever the tags say.
AVPixelFormat without_j(int format, bool& full) {
  switch (format) {
    case AV_PIX_FMT_YUVJ411P:
      full = true;
      return AV_PIX_FMT_YUV411P;
    case AV_PIX_FMT_YUVJ420P:
      full = true;
      return AV_PIX_FMT_YUV420P;
    case AV_PIX_FMT_YUVJ422P:
      full = true;
      return AV_PIX_FMT_YUV422P;
    case AV_PIX_FMT_YUVJ440P:
      full = true;
      return AV_PIX_FMT_YUV440P;
    case AV_PIX_FMT_YUVJ444P:
      full = true;
      return AV_PIX_FMT_YUV444P;
    default:
      return static_cast<AVPixelFormat>(format);
  }
}

int scaler_matrix(AVColorSpace space) {
  switch (space) {
    case AVCOL_SPC_BT709:
      return SWS_CS_ITU709;
    case AVCOL_SPC_FCC:
      return SWS_CS_FCC;
    case AVCOL_SPC_SMPTE240M:
      return SWS_CS_SMPTE240M;
    case AVCOL_SPC_BT2020_NCL:
    case AVCOL_SPC_BT2020_CL:
      return SWS_CS_BT2020;
    default:
      return SWS_CS_ITU601;
  }
}

bool is_gray(AVPixelFormat format) {
  const AVPixFmtDescriptor* about = av_pix_fmt_desc_get(format);
  return about != nullptr && about->nb_components <= 2 &&
         (about->flags & (AV_PIX_FMT_FLAG_RGB | AV_PIX_FMT_FLAG_PAL)) == 0;
}

}  // namespace

Orientation orientation_of(const std::int32_t* matrix) {
  double a = matrix[0], b = matrix[1];
  const double c = matrix[3], d = matrix[4];
  Orientation result;
  result.mirror = a * d - b * c < 0;
  if (result.mirror) a = -a, b = -b;
  const double degrees = std::atan2(b, a) * 180.0 / std::numbers::pi;
  const int quarters = static_cast<int>(std::lround(degrees / 90.0));
  result.rotation = ((quarters % 4) + 4) % 4 * 90;
  return result;
}

void RgbConverter::prepare(const AVFrame& picture) {
  bool full = picture.color_range == AVCOL_RANGE_JPEG;
  const AVPixelFormat format = without_j(picture.format, full);
  if (picture.color_range == AVCOL_RANGE_UNSPECIFIED && is_gray(format))
    full = true;  // gray without a tag is a plain picture
  const int matrix = scaler_matrix(picture.colorspace);
  if (scaler_ && source_width_ == picture.width && source_height_ == picture.height && source_format_ == format &&
      source_range_ == static_cast<int>(full) && source_matrix_ == matrix) {
    return;
  }
  // Exact rounding and the C-equal paths: the same bytes on every CPU, within one or two steps of the true colour.
  constexpr int flags = SWS_BILINEAR | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT | SWS_BITEXACT;
  scaler_.reset(sws_getContext(picture.width, picture.height, format, width_, height_, AV_PIX_FMT_RGB24, flags, nullptr,
                               nullptr, nullptr));
  if (!scaler_) {
    const char* name = av_get_pix_fmt_name(format);
    throw content_error(std::string("no way from pixel format ") + (name != nullptr ? name : "unknown") + " to RGB");
  }
  constexpr int one = 1 << 16;
  sws_setColorspaceDetails(scaler_.get(), sws_getCoefficients(matrix), full ? 1 : 0, sws_getCoefficients(SWS_CS_ITU601),
                           1, 0, one, one);
  source_width_ = picture.width, source_height_ = picture.height, source_format_ = format;
  source_range_ = static_cast<int>(full), source_matrix_ = matrix;
  stride_ = (static_cast<std::size_t>(width_) * 3 + 64 + 63) / 64 * 64;
  rows_.resize(stride_ * static_cast<std::size_t>(height_) + 64);
}

void RgbConverter::turn_upright(Frame& out) const {
  const bool sideways = orientation_.rotation % 180 != 0;
  out.width = sideways ? height_ : width_;
  out.height = sideways ? width_ : height_;
  const auto row_bytes = static_cast<std::size_t>(out.width) * 3;
  out.rgb.resize(row_bytes * static_cast<std::size_t>(out.height));
  for (int y = 0; y < out.height; ++y) {
    std::uint8_t* to = out.rgb.data() + row_bytes * static_cast<std::size_t>(y);
    if (orientation_.rotation == 0 && !orientation_.mirror) {
      std::memcpy(to, rows_.data() + stride_ * static_cast<std::size_t>(y), row_bytes);
      continue;
    }
    for (int x = 0; x < out.width; ++x, to += 3) {
      int sx = x, sy = y;  // where (x, y) of the shown picture was before the turn
      if (orientation_.rotation == 90) sx = y, sy = height_ - 1 - x;
      if (orientation_.rotation == 180) sx = width_ - 1 - x, sy = height_ - 1 - y;
      if (orientation_.rotation == 270) sx = width_ - 1 - y, sy = x;
      if (orientation_.mirror) sx = width_ - 1 - sx;
      std::memcpy(to, rows_.data() + stride_ * static_cast<std::size_t>(sy) + static_cast<std::size_t>(sx) * 3, 3);
    }
  }
}

Frame RgbConverter::operator()(const AVFrame& picture) {
  prepare(picture);
  std::uint8_t* planes[4] = {rows_.data(), nullptr, nullptr, nullptr};
  const int strides[4] = {static_cast<int>(stride_), 0, 0, 0};
  sws_scale(scaler_.get(), picture.data, picture.linesize, 0, picture.height, planes, strides);
  Frame out;
  turn_upright(out);
  return out;
}

}  // namespace clipbert::data
