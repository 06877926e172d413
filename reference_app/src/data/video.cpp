#include "data/video.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "config/errors.hpp"
#include "data/libav.hpp"
#include "data/to_rgb.hpp"

namespace clipbert::data {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t most_pixels = std::int64_t{1}
                                     << 26;  // of one picture: twice 8K; a small file cannot ask for more

/// Ends libav's work when nothing comes out for too long, or when the program is asked to stop.
struct Watch {
  double patience = 0;
  const std::atomic<bool>* stop = nullptr;
  Clock::time_point progress = Clock::now();

  [[nodiscard]] bool stopped() const { return stop != nullptr && stop->load(std::memory_order_relaxed); }
  [[nodiscard]] bool expired() const {
    return stopped() || std::chrono::duration<double>(Clock::now() - progress).count() > patience;
  }
  static int interrupted(void* self) { return static_cast<Watch*>(self)->expired() ? 1 : 0; }
};

int refuse_nested_file(AVFormatContext*, AVIOContext**, const char*, int, AVDictionary**) { return AVERROR(EPERM); }

int area(const AVStream& stream) { return stream.codecpar->width * stream.codecpar->height; }

/// Lowest index with the default disposition; else the largest, lowest index first; attached pictures only alone.
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

/// One linear decode of the chosen stream of a file.
class Decoder {
 public:
  Decoder(const std::filesystem::path& file, const VideoOptions& options)
      : file_(file), source_(file), watch_{options.patience_seconds, options.stop}, packet_(av::make_packet()) {
    open_container();
    open_codec();
  }

  /// Fills `frame` with the next shown picture; false at the end.
  bool next(AVFrame& frame);

  [[nodiscard]] const AVStream& stream() const { return *input_->streams[index_]; }
  [[nodiscard]] const AVCodecContext& codec() const { return *codec_; }
  [[nodiscard]] AVRational average_rate() const {
    return av_guess_frame_rate(input_.get(), input_->streams[index_], nullptr);
  }
  [[nodiscard]] std::int64_t errors() const { return errors_; }
  [[nodiscard]] const std::string& first_error() const { return first_error_; }
  /// What libav returned or logged as an error, or the mark on a packet that the container calls corrupt. Much damage
  /// shows here only: decoders conceal it, and a cut file may just end.
  [[nodiscard]] std::string complaint() const {
    if (!first_error_.empty()) return first_error_;
    if (!log_.first_error().empty()) return log_.first_error();
    return corrupt_packets_ ? "packets are marked corrupt" : "";
  }
  [[nodiscard]] content_error fault(const std::string& what) const {
    const std::string& said = !first_error_.empty() ? first_error_ : log_.first_error();
    return content_error(file_.string() + ": " + what + (said.empty() ? "" : " (libav: " + said + ")"));
  }

 private:
  void open_container();
  void find_stream_info();
  void open_codec();
  bool feed();
  void note_error(int code) {
    if (errors_++ == 0) first_error_ = log_.first_error().empty() ? av::error_text(code) : log_.first_error();
  }

  std::filesystem::path file_;
  av::LogCapture log_;
  av::FileSource source_;
  Watch watch_;
  av::InputPtr input_;
  av::CodecPtr codec_;
  av::PacketPtr packet_;
  int index_ = -1;
  bool draining_ = false, corrupt_packets_ = false;
  std::int64_t errors_ = 0;
  std::string first_error_;
};

void Decoder::open_container() {
  AVFormatContext* raw = avformat_alloc_context();
  if (raw == nullptr) throw std::bad_alloc();
  raw->pb = source_.io();
  raw->io_open = refuse_nested_file;  // playlists and references inside a file open nothing
  raw->interrupt_callback = {Watch::interrupted, &watch_};
  // Without a name only the content decides: no frame-number patterns, no format by extension. No protocol is allowed:
  // a session description under a video's name opens no socket.
  AVDictionary* options = nullptr;
  av_dict_set(&options, "protocol_whitelist", "none", 0);
  const int code = avformat_open_input(&raw, nullptr, nullptr, &options);
  av_dict_free(&options);
  if (code < 0) {
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
  if (code < 0) throw fault("no stream information could be read: " + av::error_text(code));
}

void Decoder::open_codec() {
  const AVCodecParameters& parameters = *stream().codecpar;
  const AVCodec* decoder = avcodec_find_decoder(parameters.codec_id);
  const std::string name = avcodec_get_name(parameters.codec_id);
  if (decoder == nullptr) throw fault("this build of libav has no decoder for codec " + name);
  codec_.reset(avcodec_alloc_context3(decoder));
  if (!codec_) throw std::bad_alloc();
  if (avcodec_parameters_to_context(codec_.get(), &parameters) < 0) throw fault("bad parameters for codec " + name);
  codec_->thread_count = 1;  // damaged files give other frames with several
  codec_->max_pixels = most_pixels;
  codec_->pkt_timebase = stream().time_base;
  if (const int code = avcodec_open2(codec_.get(), decoder, nullptr); code < 0) {
    throw fault("the decoder for codec " + name + " does not open: " + av::error_text(code));
  }
}

/// Hands the decoder one packet more, or the end; false when there is nothing left to hand.
bool Decoder::feed() {
  if (draining_) return false;
  while (true) {
    if (watch_.stopped()) throw fault("reading was stopped");
    if (watch_.expired()) {
      note_error(AVERROR(ETIMEDOUT));
      return false;
    }
    const int code = av_read_frame(input_.get(), packet_.get());
    if (code < 0) {
      if (code != AVERROR_EOF) note_error(code);
      draining_ = true;
      avcodec_send_packet(codec_.get(), nullptr);
      return true;
    }
    const bool ours = packet_->stream_index == index_;
    corrupt_packets_ = corrupt_packets_ || (ours && (packet_->flags & AV_PKT_FLAG_CORRUPT) != 0);
    const int sent = ours ? avcodec_send_packet(codec_.get(), packet_.get()) : 0;
    av_packet_unref(packet_.get());
    if (!ours) continue;
    if (sent < 0 && sent != AVERROR(EAGAIN)) note_error(sent);
    return true;
  }
}

bool Decoder::next(AVFrame& frame) {
  while (true) {
    const int code = avcodec_receive_frame(codec_.get(), &frame);
    if (code == 0) {
      watch_.progress = Clock::now();
      return true;
    }
    if (code == AVERROR_EOF) return false;
    if (code != AVERROR(EAGAIN)) note_error(code);
    if (!feed()) {
      if (draining_ && code != AVERROR(EAGAIN) && !watch_.expired()) continue;  // more may follow a broken frame
      return false;
    }
  }
}

/// Gives every frame a time stamp: the decoder's best, else one step after the one before.
class Stamps {
 public:
  explicit Stamps(const Decoder& decoder) {
    const AVRational rate = decoder.average_rate();
    if (rate.num > 0 && rate.den > 0)
      step_ = std::max<std::int64_t>(1, av_rescale_q(1, av_inv_q(rate), decoder.stream().time_base));
  }
  std::int64_t relative(const AVFrame& frame) {
    std::int64_t stamp = frame.best_effort_timestamp != AV_NOPTS_VALUE ? frame.best_effort_timestamp : frame.pts;
    if (stamp == AV_NOPTS_VALUE) stamp = started_ ? last_ + step_ : 0;
    if (!started_) first_ = stamp;
    started_ = true;
    last_ = stamp;
    return stamp - first_;
  }

 private:
  bool started_ = false;
  std::int64_t step_ = 1, first_ = 0, last_ = 0;
};

/// What the first frame settles: sizes and the way up.
void describe(const Decoder& decoder, const AVFrame& frame, VideoInfo& info, Orientation& orientation) {
  const AVStream& stream = decoder.stream();
  info.stream_index = stream.index;
  info.codec = avcodec_get_name(stream.codecpar->codec_id);
  const char* format = av_get_pix_fmt_name(static_cast<AVPixelFormat>(frame.format));
  info.pixel_format = format != nullptr ? format : "unknown";
  info.coded_width = frame.width, info.coded_height = frame.height;  // the header may hold a later size
  if (const std::int32_t* matrix = display_matrix(stream, frame)) orientation = orientation_of(matrix);
  info.rotation = orientation.rotation, info.mirror = orientation.mirror;
  const bool sideways = info.rotation % 180 != 0;
  info.width = sideways ? info.coded_height : info.coded_width;
  info.height = sideways ? info.coded_width : info.coded_height;
  info.tick_seconds = av_q2d(stream.time_base);
  if (stream.duration != AV_NOPTS_VALUE && stream.duration > 0) info.duration = stream.duration;
}

void note_size(const AVFrame& frame, VideoInfo& info) {
  const std::array<int, 2> size{frame.width, frame.height};
  if (info.sizes_seen.empty() || info.sizes_seen.back() != size) info.sizes_seen.push_back(size);
}

void finish(const Decoder& decoder, VideoInfo& info) {
  info.decode_errors = decoder.errors();
  info.first_error = decoder.first_error();
  info.complaint = decoder.complaint();
  if (info.pts.empty()) throw decoder.fault("no frame could be decoded");
  const AVRational average = decoder.stream().avg_frame_rate;
  const AVRational rate = average.num > 0 && average.den > 0 ? average : decoder.average_rate();
  if (rate.num > 0 && rate.den > 0) {
    info.average_fps = av_q2d(rate);
  } else {
    const double span = static_cast<double>(info.pts.back()) * info.tick_seconds;
    info.average_fps = info.frames() > 1 && span > 0 ? static_cast<double>(info.frames() - 1) / span : 1.0;
  }
}

/// Runs over a whole file; `on_frame(index, picture)` returns false to end early.
template <typename OnFrame>
VideoInfo scan(const std::filesystem::path& file, const VideoOptions& options, Orientation& orientation,
               OnFrame on_frame) {
  Decoder decoder(file, options);
  Stamps stamps(decoder);
  VideoInfo info;
  const av::FramePtr frame = av::make_frame();
  while (decoder.next(*frame)) {
    if (info.pts.empty()) describe(decoder, *frame, info, orientation);
    note_size(*frame, info);
    info.pts.push_back(stamps.relative(*frame));
    try {
      if (!on_frame(info, *frame)) break;
    } catch (const content_error& error) {
      throw decoder.fault(error.what());
    }
    av_frame_unref(frame.get());
  }
  finish(decoder, info);
  return info;
}

std::size_t picture_bytes(const AVFrame& frame) {
  const int bytes = av_image_get_buffer_size(static_cast<AVPixelFormat>(frame.format), frame.width, frame.height, 32);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : std::size_t{1} << 24;
}

}  // namespace

struct Video::Impl {
  std::filesystem::path file;
  VideoOptions options;
  VideoInfo info;
  RgbConverter to_rgb;
  std::vector<av::FramePtr> kept;  // the first frames, as many as keep_bytes holds

  Frame convert(std::size_t index, const AVFrame& picture) {
    Frame out = to_rgb(picture);
    out.seconds = info.seconds(index);
    return out;
  }
};

Video::Video(std::filesystem::path file, const VideoOptions& options) : impl_(std::make_unique<Impl>()) {
  impl_->file = std::move(file);
  impl_->options = options;
  std::size_t held = 0;
  bool full = false;
  Orientation orientation;
  impl_->info = scan(impl_->file, options, orientation, [&](const VideoInfo&, AVFrame& picture) {
    held += picture_bytes(picture);
    full = full || held > options.keep_bytes;
    if (!full) {
      av::FramePtr copy = av::make_frame();
      av_frame_move_ref(copy.get(), &picture);
      impl_->kept.push_back(std::move(copy));
    }
    return true;
  });
  impl_->to_rgb = RgbConverter(impl_->info.coded_width, impl_->info.coded_height, orientation);
}
Video::~Video() = default;
Video::Video(Video&&) noexcept = default;
Video& Video::operator=(Video&&) noexcept = default;

const VideoInfo& Video::info() const { return impl_->info; }

std::vector<Frame> Video::frames(std::span<const std::size_t> indices) {
  std::map<std::size_t, Frame> found;
  std::set<std::size_t> later;
  for (const std::size_t index : indices) {
    if (index >= impl_->info.frames()) {
      throw content_error(impl_->file.string() + ": frame " + std::to_string(index) + " asked, but it has " +
                          std::to_string(impl_->info.frames()));
    }
    if (found.contains(index)) continue;
    if (index < impl_->kept.size()) {
      found.emplace(index, impl_->convert(index, *impl_->kept[index]));
    } else {
      later.insert(index);
    }
  }
  if (!later.empty()) {
    Orientation orientation;
    (void)scan(impl_->file, impl_->options, orientation, [&](const VideoInfo& info, const AVFrame& picture) {
      const std::size_t index = info.frames() - 1;
      if (later.erase(index) > 0) found.emplace(index, impl_->convert(index, picture));
      return !later.empty();
    });
    if (!later.empty()) throw content_error(impl_->file.string() + ": the file changed while it was read");
  }
  std::vector<Frame> result;
  result.reserve(indices.size());
  for (const std::size_t index : indices) result.push_back(found.at(index));
  return result;
}

Frame Video::frame(std::size_t index) { return std::move(frames(std::span(&index, 1)).front()); }

VideoInfo probe(const std::filesystem::path& file, const VideoOptions& options) {
  Orientation orientation;
  return scan(file, options, orientation, [](const VideoInfo&, const AVFrame&) { return true; });
}

DecodedVideo decode_all(const std::filesystem::path& file, const VideoOptions& options) {
  DecodedVideo result;
  std::optional<RgbConverter> to_rgb;
  Orientation orientation;
  result.info = scan(file, options, orientation, [&](const VideoInfo& info, const AVFrame& picture) {
    if (!to_rgb) to_rgb.emplace(info.coded_width, info.coded_height, orientation);
    result.frames.push_back((*to_rgb)(picture));
    result.frames.back().seconds = info.seconds(info.frames() - 1);
    return true;
  });
  return result;
}

Frame first_frame(const std::filesystem::path& file, const VideoOptions& options) {
  Frame result;
  Orientation orientation;
  (void)scan(file, options, orientation, [&](const VideoInfo& info, const AVFrame& picture) {
    result = RgbConverter(info.coded_width, info.coded_height, orientation)(picture);
    return false;
  });
  return result;
}

std::vector<std::string> codec_versions() {
  const auto text = [](const char* name, unsigned version) {
    return std::string(name) + " " + std::to_string(AV_VERSION_MAJOR(version)) + "." +
           std::to_string(AV_VERSION_MINOR(version)) + "." + std::to_string(AV_VERSION_MICRO(version));
  };
  return {text("libavformat", avformat_version()), text("libavcodec", avcodec_version()),
          text("libswscale", swscale_version()), text("libavutil", avutil_version())};
}

}  // namespace clipbert::data
