#include "data/decoder.hpp"

#include <cstring>
#include <ctime>
#include <new>
#include <vector>

namespace clipbert::data {
namespace {

constexpr std::int64_t most_pixels = std::int64_t{1}
                                     << 26;  // of one picture: twice 8K; a small file cannot ask for more

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

int refuse_nested_file(AVFormatContext*, AVIOContext**, const char*, int, AVDictionary**) { return AVERROR(EPERM); }

std::int64_t area(const AVStream& stream) {
  return std::int64_t{stream.codecpar->width} * std::int64_t{stream.codecpar->height};
}

int choose_stream(const AVFormatContext& input) {
  int best = -1;
  for (const bool attached : {false, true}) {
    for (unsigned i = 0; i < input.nb_streams; ++i) {
      const AVStream& stream = *input.streams[i];
      if (stream.codecpar->codec_type != AVMEDIA_TYPE_VIDEO) continue;
      if (((stream.disposition & AV_DISPOSITION_ATTACHED_PIC) != 0) != attached) continue;
      if (!attached && (stream.disposition & AV_DISPOSITION_DEFAULT) != 0) return static_cast<int>(i);
      if (best < 0 || area(stream) > area(*input.streams[best])) best = static_cast<int>(i);
    }
    if (best >= 0) break;
  }
  return best;
}

/// A picture's room, zeroed: what a decoder leaves out of a damaged picture is the same each time.
int zeroed_picture(AVCodecContext* codec, AVFrame* frame, int flags) {
  const int code = avcodec_default_get_buffer2(codec, frame, flags);
  for (const AVBufferRef* buffer : frame->buf) {
    if (code >= 0 && buffer != nullptr) std::memset(buffer->data, 0, buffer->size);
  }
  return code;
}

}  // namespace

void Watch::begin(std::int64_t bytes) {
  began_ = processor_seconds();
  allowed_ = seconds_ + seconds_per_megabyte_ * static_cast<double>(bytes) * 1e-6;
}

bool Watch::expired() const { return stopped() || processor_seconds() - began_ > allowed_; }

Decoder::Decoder(const VideoSource& source, const VideoOptions& options)
    : name_(source.name()),
      watch_(options.seconds, options.seconds_per_megabyte, options.stop),
      io_(source, [this] { return watch_.expired(); }),
      packet_(av::make_packet()) {
  const av::LogScope scope(log_);
  begin_work();
  open_container();
  open_codec();
}

void Decoder::open_container() {
  AVFormatContext* raw = avformat_alloc_context();
  if (raw == nullptr) throw std::bad_alloc();
  raw->pb = io_.io();
  raw->flags |= AVFMT_FLAG_CUSTOM_IO;
  raw->io_open = refuse_nested_file;
  raw->interrupt_callback = {[](void* watch) { return static_cast<Watch*>(watch)->expired() ? 1 : 0; }, &watch_};
  // Without a name only the content decides: no frame-number patterns, no format by extension. No protocol is allowed:
  // a session description under a video's name opens no socket.
  AVDictionary* options = nullptr;
  av_dict_set(&options, "protocol_whitelist", "none", 0);
  const int code = avformat_open_input(&raw, nullptr, nullptr, &options);
  av_dict_free(&options);
  if (code < 0) {
    check_watch();
    throw fault("not a video or picture that libav can read: " + av::error_text(code));
  }
  input_.reset(raw);
  find_stream_info();
  index_ = choose_stream(*raw);
  if (index_ < 0) throw fault("no video stream in it (" + std::to_string(raw->nb_streams) + " other streams)");
  for (unsigned i = 0; i < raw->nb_streams; ++i) {
    if (static_cast<int>(i) != index_) raw->streams[i]->discard = AVDISCARD_ALL;
  }
}

/// libav's look at the first packets, with the limits that its decoders have here too.
void Decoder::find_stream_info() {
  std::vector<AVDictionary*> limits(input_->nb_streams, nullptr);
  for (AVDictionary*& one : limits) av_dict_set_int(&one, "max_pixels", most_pixels, 0);
  const int code = avformat_find_stream_info(input_.get(), limits.data());
  for (AVDictionary*& one : limits) av_dict_free(&one);
  check_watch();
  if (code < 0) throw fault("no stream information could be read: " + av::error_text(code));
}

void Decoder::open_codec() {
  const AVCodecParameters& parameters = *stream().codecpar;
  const AVCodec* decoder = avcodec_find_decoder(parameters.codec_id);
  const std::string codec = avcodec_get_name(parameters.codec_id);
  if (decoder == nullptr) throw fault("this build of libav has no decoder for codec " + codec);
  codec_.reset(avcodec_alloc_context3(decoder));
  if (!codec_) throw std::bad_alloc();
  if (avcodec_parameters_to_context(codec_.get(), &parameters) < 0) throw fault("bad parameters for codec " + codec);
  codec_->thread_count = 1;  // damaged files give other frames with several
  codec_->max_pixels = most_pixels;
  codec_->get_buffer2 = zeroed_picture;
  codec_->pkt_timebase = stream().time_base;
  if (const int code = avcodec_open2(codec_.get(), decoder, nullptr); code < 0) {
    throw fault("the decoder for codec " + codec + " does not open: " + av::error_text(code));
  }
}

void Decoder::check_watch() const {
  if (watch_.stopped()) throw fault("reading was stopped");
  if (watch_.expired()) {
    throw fault("takes more than the " + std::to_string(static_cast<int>(watch_.allowed() + 0.5)) +
                " s of processor time that a file of its size may; make it shorter or encode it again");
  }
}

void Decoder::note_error(int code) {
  if (errors_++ == 0) first_error_ = log_.first_error().empty() ? av::error_text(code) : log_.first_error();
}

bool Decoder::read(AVPacket& packet) {
  while (!ended_) {
    check_watch();
    const int code = av_read_frame(input_.get(), &packet);
    if (code < 0) {
      check_watch();
      if (code != AVERROR_EOF) note_error(code);
      ended_ = true;
      break;
    }
    if (packet.stream_index == index_) {
      corrupt_packets_ = corrupt_packets_ || (packet.flags & AV_PKT_FLAG_CORRUPT) != 0;
      return true;
    }
    av_packet_unref(&packet);
  }
  return false;
}

void Decoder::send(const AVPacket* packet) {
  if (packet == nullptr) drained_ = true;
  const int code = avcodec_send_packet(codec_.get(), packet);
  if (packet != nullptr && code < 0 && code != AVERROR(EAGAIN)) note_error(code);
}

bool Decoder::receive(AVFrame& frame) {
  while (true) {
    check_watch();
    const int code = avcodec_receive_frame(codec_.get(), &frame);
    if (code == 0) return true;
    if (code == AVERROR_EOF || code == AVERROR(EAGAIN)) return false;
    note_error(code);
    if (!drained_) return false;  // at the end more may follow a broken picture
  }
}

void Decoder::restart() {
  open_codec();
  drained_ = false;
}

bool Decoder::next(AVFrame& frame) {
  while (!receive(frame)) {
    if (drained_) return false;
    if (read(*packet_)) {
      send(packet_.get());
      av_packet_unref(packet_.get());
    } else {
      send(nullptr);
    }
  }
  return true;
}

std::string Decoder::complaint() const {
  if (!first_error_.empty()) return first_error_;
  if (!log_.first_error().empty()) return log_.first_error();
  return corrupt_packets_ ? "packets are marked corrupt" : "";
}

content_error Decoder::fault(const std::string& what) const {
  const std::string& said = !first_error_.empty() ? first_error_ : log_.first_error();
  return content_error(name_ + ": " + what + (said.empty() ? "" : " (libav: " + said + ")"));
}

const std::int32_t* display_matrix(const AVStream& stream, const AVFrame& frame) {
  if (const AVFrameSideData* side = av_frame_get_side_data(&frame, AV_FRAME_DATA_DISPLAYMATRIX)) {
    return reinterpret_cast<const std::int32_t*>(side->data);
  }
#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(60, 31, 102)
  const AVPacketSideData* side = av_packet_side_data_get(
      stream.codecpar->coded_side_data, stream.codecpar->nb_coded_side_data, AV_PKT_DATA_DISPLAYMATRIX);
  return side != nullptr ? reinterpret_cast<const std::int32_t*>(side->data) : nullptr;
#else
  return reinterpret_cast<const std::int32_t*>(av_stream_get_side_data(&stream, AV_PKT_DATA_DISPLAYMATRIX, nullptr));
#endif
}

}  // namespace clipbert::data
