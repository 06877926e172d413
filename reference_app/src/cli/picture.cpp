#include "cli/picture.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavutil/frame.h>
#include <libswscale/swscale.h>
}

namespace clipbert::cli {
namespace {

struct Free {
  void operator()(AVCodecContext* p) const { avcodec_free_context(&p); }
  void operator()(AVFrame* p) const { av_frame_free(&p); }
  void operator()(AVPacket* p) const { av_packet_free(&p); }
  void operator()(SwsContext* p) const { sws_freeContext(p); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

void expect(bool ok, const char* what) {
  if (!ok) throw std::runtime_error(std::string("thumbnail: libav cannot ") + what);
}

/// `frame` filled with the shrunk picture in full-range 4:2:0, which is what JPEG holds.
Owned<AVFrame> shrink(std::span<const std::uint8_t> rgb, int width, int height, int longest) {
  const double scale = std::min(1.0, static_cast<double>(longest) / std::max(width, height));
  Owned<AVFrame> frame(av_frame_alloc());
  expect(frame != nullptr, "make a frame");
  frame->width = std::max(1, static_cast<int>(width * scale));
  frame->height = std::max(1, static_cast<int>(height * scale));
  frame->format = AV_PIX_FMT_YUV420P;
  frame->color_range = AVCOL_RANGE_JPEG;
  expect(av_frame_get_buffer(frame.get(), 0) == 0, "make a frame");
  const Owned<SwsContext> scaler(sws_getContext(width, height, AV_PIX_FMT_RGB24, frame->width, frame->height,
                                                AV_PIX_FMT_YUV420P, SWS_AREA | SWS_ACCURATE_RND, nullptr, nullptr,
                                                nullptr));
  expect(scaler != nullptr, "scale the picture");
  const int* matrix = sws_getCoefficients(SWS_CS_ITU601);
  sws_setColorspaceDetails(scaler.get(), matrix, 1, matrix, 1, 0, 1 << 16, 1 << 16);
  const std::uint8_t* planes[] = {rgb.data()};
  const int strides[] = {3 * width};
  sws_scale(scaler.get(), planes, strides, 0, height, frame->data, frame->linesize);
  return frame;
}

}  // namespace

std::string jpeg(std::span<const std::uint8_t> rgb, int width, int height, int longest) {
  expect(width > 0 && height > 0 && rgb.size() == static_cast<std::size_t>(width) * height * 3,
         "take a picture of this size");
  const Owned<AVFrame> frame = shrink(rgb, width, height, longest);
  const AVCodec* codec = avcodec_find_encoder(AV_CODEC_ID_MJPEG);
  expect(codec != nullptr, "encode JPEG: it was built without the mjpeg encoder");
  const Owned<AVCodecContext> context(avcodec_alloc_context3(codec));
  expect(context != nullptr, "start the mjpeg encoder");
  context->width = frame->width;
  context->height = frame->height;
  context->pix_fmt = AV_PIX_FMT_YUV420P;
  context->color_range = AVCOL_RANGE_JPEG;
  context->strict_std_compliance = FF_COMPLIANCE_UNOFFICIAL;
  context->time_base = {1, 25};
  context->flags |= AV_CODEC_FLAG_QSCALE;
  context->global_quality = 3 * FF_QP2LAMBDA;
  context->thread_count = 1;
  expect(avcodec_open2(context.get(), codec, nullptr) == 0, "start the mjpeg encoder");
  frame->quality = context->global_quality;
  frame->pts = 0;
  const Owned<AVPacket> packet(av_packet_alloc());
  expect(packet != nullptr && avcodec_send_frame(context.get(), frame.get()) == 0 &&
             avcodec_send_frame(context.get(), nullptr) == 0 &&
             avcodec_receive_packet(context.get(), packet.get()) == 0,
         "encode the picture");
  return {reinterpret_cast<const char*>(packet->data), static_cast<std::size_t>(packet->size)};
}

std::string base64(const std::string& bytes) {
  constexpr char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t n = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t word = 0;
    for (std::size_t k = 0; k < 3; ++k) word = word << 8 | (k < n ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k) out += k <= n ? letters[word >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

}  // namespace clipbert::cli
