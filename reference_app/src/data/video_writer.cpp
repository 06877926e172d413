#include "data/video_writer.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <system_error>

#include "config/errors.hpp"
#include "data/libav.hpp"

extern "C" {
#include <libavutil/opt.h>
}

namespace clipbert::data {
namespace {

void free_output(AVFormatContext* output) noexcept {
  if (output != nullptr) avio_closep(&output->pb);
  avformat_free_context(output);
}
struct OutputDeleter {
  void operator()(AVFormatContext* output) const noexcept { free_output(output); }
};

class H264Writer {
 public:
  H264Writer(const std::filesystem::path& file, int width, int height, const H264Options& options)
      : file_(file), options_(options), packet_(av::make_packet()), picture_(av::make_frame()) {
    make_output();
    open_codec(width, height);
    open_file();
  }

  void add(const Frame& frame, std::int64_t number) {
    check(av_frame_make_writable(picture_.get()), "making a picture");
    const std::uint8_t* planes[4] = {frame.rgb.data(), nullptr, nullptr, nullptr};
    const int strides[4] = {frame.width * 3, 0, 0, 0};
    sws_scale(scaler_.get(), planes, strides, 0, frame.height, picture_->data, picture_->linesize);
    picture_->pts = number;
    encode(picture_.get());
  }

  void finish() {
    encode(nullptr);
    check(av_write_trailer(output_.get()), "writing the end");
    check(avio_closep(&output_->pb), "closing");
  }

 private:
  void check(int code, const char* doing) const {
    if (code >= 0) return;
    throw content_error(file_.string() + ": " + doing + " failed: " + av::error_text(code) +
                        (log_.first_error().empty() ? "" : " (libav: " + log_.first_error() + ")"));
  }
  void make_output();
  void open_codec(int width, int height);
  void open_file();
  void encode(const AVFrame* picture);

  std::filesystem::path file_;
  H264Options options_;
  av::LogCapture log_;
  av::LogScope log_scope_{log_};
  av::PacketPtr packet_;
  av::FramePtr picture_;
  av::CodecPtr codec_;
  av::SwsPtr scaler_;
  std::unique_ptr<AVFormatContext, OutputDeleter> output_;
  AVStream* stream_ = nullptr;
};

void H264Writer::make_output() {
  AVFormatContext* raw = nullptr;
  check(avformat_alloc_output_context2(&raw, nullptr, options_.container.c_str(), nullptr), "making a container");
  output_.reset(raw);
  raw->flags |= AVFMT_FLAG_BITEXACT;
}

void H264Writer::open_codec(int width, int height) {
  const AVCodec* encoder = avcodec_find_encoder_by_name("libx264");
  if (encoder == nullptr) throw content_error(file_.string() + ": this build of libav has no libx264");
  codec_.reset(avcodec_alloc_context3(encoder));
  codec_->width = width, codec_->height = height;
  codec_->pix_fmt = AV_PIX_FMT_YUV420P;
  codec_->time_base = {1, options_.fps};
  codec_->framerate = {options_.fps, 1};
  codec_->thread_count = 1;
  codec_->gop_size = options_.key_interval;
  codec_->max_b_frames = options_.b_frames;
  codec_->color_range = options_.full_range ? AVCOL_RANGE_JPEG : AVCOL_RANGE_MPEG;
  codec_->colorspace = options_.bt709 ? AVCOL_SPC_BT709 : AVCOL_SPC_SMPTE170M;
  codec_->flags |= AV_CODEC_FLAG_BITEXACT;
  if ((output_->oformat->flags & AVFMT_GLOBALHEADER) != 0) codec_->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
  av_opt_set(codec_->priv_data, "preset", "veryfast", 0);
  av_opt_set_int(codec_->priv_data, "crf", options_.crf, 0);
  check(avcodec_open2(codec_.get(), encoder, nullptr), "opening x264");

  picture_->format = codec_->pix_fmt;
  picture_->width = width, picture_->height = height;
  check(av_frame_get_buffer(picture_.get(), 0), "allocating a picture");
  scaler_.reset(sws_getContext(width, height, AV_PIX_FMT_RGB24, width, height, AV_PIX_FMT_YUV420P,
                               SWS_BILINEAR | SWS_ACCURATE_RND | SWS_BITEXACT, nullptr, nullptr, nullptr));
  if (!scaler_) throw content_error(file_.string() + ": libav cannot convert RGB to YUV");
  constexpr int one = 1 << 16;
  sws_setColorspaceDetails(scaler_.get(), sws_getCoefficients(SWS_CS_ITU601), 1,
                           sws_getCoefficients(options_.bt709 ? SWS_CS_ITU709 : SWS_CS_ITU601),
                           options_.full_range ? 1 : 0, 0, one, one);
}

void H264Writer::open_file() {
  AVFormatContext* raw = output_.get();
  stream_ = avformat_new_stream(raw, nullptr);
  if (stream_ == nullptr) throw std::bad_alloc();
  check(avcodec_parameters_from_context(stream_->codecpar, codec_.get()), "describing the stream");
  stream_->time_base = codec_->time_base;
  stream_->avg_frame_rate = codec_->framerate;
  if (options_.rotation != 0 || options_.mirror) {
    auto* matrix = reinterpret_cast<std::int32_t*>(
        av_stream_new_side_data(stream_, AV_PKT_DATA_DISPLAYMATRIX, sizeof(std::int32_t) * 9));
    if (matrix == nullptr) throw std::bad_alloc();
    const double angle = options_.rotation * std::numbers::pi / 180;  // clockwise, y downwards
    const auto fixed = [](double value) { return static_cast<std::int32_t>(std::lround(value * 65536)); };
    std::fill(matrix, matrix + 9, 0);
    matrix[0] = fixed(std::cos(angle)), matrix[1] = fixed(std::sin(angle));
    matrix[3] = -matrix[1], matrix[4] = matrix[0], matrix[8] = 1 << 30;
    if (options_.mirror) matrix[0] = -matrix[0], matrix[1] = -matrix[1];
  }
  check(avio_open(&raw->pb, ("file:" + file_.string()).c_str(), AVIO_FLAG_WRITE), "opening for writing");
  check(avformat_write_header(raw, nullptr), "writing the header");
}

void H264Writer::encode(const AVFrame* picture) {
  check(avcodec_send_frame(codec_.get(), picture), "encoding");
  while (true) {
    const int code = avcodec_receive_packet(codec_.get(), packet_.get());
    if (code == AVERROR(EAGAIN) || code == AVERROR_EOF) return;
    check(code, "encoding");
    packet_->stream_index = stream_->index;
    packet_->duration = 1;
    av_packet_rescale_ts(packet_.get(), codec_->time_base, stream_->time_base);
    check(av_interleaved_write_frame(output_.get(), packet_.get()), "writing");
  }
}

}  // namespace

void write_h264(const std::filesystem::path& file, const std::vector<Frame>& frames, const H264Options& options) {
  if (frames.empty()) throw content_error(file.string() + ": no frame to write");
  const std::filesystem::path beside = file.string() + ".part";
  try {
    H264Writer writer(beside, frames.front().width, frames.front().height, options);
    std::int64_t number = 0;
    for (const Frame& frame : frames) writer.add(frame, number++);
    writer.finish();
    std::filesystem::rename(beside, file);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(beside, ignored);
    throw;
  }
}

}  // namespace clipbert::data
