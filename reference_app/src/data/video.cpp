#include "data/video.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "config/errors.hpp"
#include "data/decoder.hpp"
#include "data/packet_index.hpp"
#include "data/to_rgb.hpp"

namespace clipbert::data {
namespace {

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

/// Pictures a second: as the container says, else as the stamps do.
double rate_of(const Decoder& decoder, const VideoInfo& info) {
  const AVRational average = decoder.stream().avg_frame_rate;
  const AVRational rate = average.num > 0 && average.den > 0 ? average : decoder.average_rate();
  if (rate.num > 0 && rate.den > 0) return av_q2d(rate);
  const double span = static_cast<double>(info.pts.back()) * info.tick_seconds;
  return info.frames() > 1 && span > 0 ? static_cast<double>(info.frames() - 1) / span : 1.0;
}

void finish(const Decoder& decoder, VideoInfo& info) {
  info.decode_errors = decoder.errors();
  info.first_error = decoder.first_error();
  info.complaint = decoder.complaint();
  if (info.pts.empty()) throw decoder.fault("no frame could be decoded");
  info.average_fps = rate_of(decoder, info);
}

/// Runs over everything that a fresh decoder gives; `on_frame(info so far, picture)` returns false to end early.
template <typename OnFrame>
VideoInfo scan(Decoder& decoder, Orientation& orientation, OnFrame on_frame) {
  const av::LogScope scope(decoder.log());
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

/// What it takes to hold a picture.
std::size_t picture_bytes(const AVFrame& frame) {
  constexpr std::size_t around = 2048;  // of libav's own records, which outweigh a tiny picture
  const int bytes = av_image_get_buffer_size(static_cast<AVPixelFormat>(frame.format), frame.width, frame.height, 32);
  return around + (bytes > 0 ? static_cast<std::size_t>(bytes) : std::size_t{1} << 24);
}

/// A plain stream by its packets.
class PlainStream {
 public:
  PlainStream(std::unique_ptr<Decoder> decoder, PacketIndex index)
      : decoder_(std::move(decoder)), index_(std::move(index)) {}

  [[nodiscard]] Decoder& decoder() const { return *decoder_; }
  [[nodiscard]] const PacketIndex& index() const { return index_; }

  /// Decodes what these frames (by time, each once) need; `on_frame(frame's number, picture)`. False if anything came
  /// out otherwise than the packets say.
  template <typename OnFrame>
  bool decode(const std::set<std::size_t>& frames, const VideoSource& source, const VideoOptions& options,
              OnFrame on_frame) {
    const av::LogScope scope(decoder_->log());
    decoder_->begin_work();
    std::map<std::size_t, std::size_t> wanted;  // packet -> frame
    for (const std::size_t frame : frames) wanted.emplace(index_.shown[frame], frame);
    std::optional<Decoder> reader;
    if (index_.kept.empty()) reader.emplace(source, options);
    std::size_t read = 0;
    for (const PacketGroup& group : index_.groups) {
      const auto behind = wanted.lower_bound(group.end);
      if (behind == wanted.begin() || std::prev(behind)->first < group.first) continue;
      const PacketGroup part{group.first, std::prev(behind)->first + 1};
      if (!decode_part(part, wanted, reader ? &*reader : nullptr, read, on_frame)) return false;
    }
    return decoder_->complaint().empty();
  }

 private:
  template <typename OnFrame>
  bool decode_part(const PacketGroup& part, const std::map<std::size_t, std::size_t>& wanted, Decoder* reader,
                   std::size_t& read, OnFrame& on_frame) {
    std::map<std::int64_t, std::size_t> due;  // pts -> packet, of all pictures that must come out
    const av::PacketPtr packet = av::make_packet();
    const av::FramePtr frame = av::make_frame();
    const auto take = [&] {
      while (decoder_->receive(*frame)) {
        const bool sound = frame->decode_error_flags == 0 && (frame->flags & AV_FRAME_FLAG_CORRUPT) == 0;
        if (!sound || due.empty() || due.begin()->first != frame->pts) return false;
        if (const auto found = wanted.find(due.begin()->second); found != wanted.end()) {
          if (!on_frame(found->second, *frame)) return false;
        }
        due.erase(due.begin());
      }
      return true;
    };
    decoder_->restart();
    // The decoder hands pictures out in order, so what is due is known before any packet is sent.
    for (std::size_t i = part.first; i < part.end; ++i) {
      if (index_.packets[i].shown && used(i, wanted)) due.emplace(index_.packets[i].pts, i);
    }
    for (std::size_t i = part.first; i < part.end; ++i) {
      const AVPacket* data = reader != nullptr ? nullptr : index_.kept[i].get();
      for (; reader != nullptr && read <= i; ++read) {
        av_packet_unref(packet.get());
        if (!reader->read(*packet)) return false;
        data = packet.get();
      }
      if (!used(i, wanted)) continue;
      decoder_->send(data);
      if (!take()) return false;
    }
    decoder_->send(nullptr);
    return take() && due.empty();
  }

  [[nodiscard]] bool used(std::size_t packet, const std::map<std::size_t, std::size_t>& wanted) const {
    return index_.packets[packet].needed || wanted.contains(packet);
  }

  std::unique_ptr<Decoder> decoder_;
  PacketIndex index_;
};

}  // namespace

struct Video::Impl {
  VideoSource source;
  VideoOptions options;
  VideoInfo info;
  RgbConverter to_rgb;
  std::optional<PlainStream> plain;
  std::vector<av::FramePtr> held;  // of a scan: the first pictures, as many as keep_bytes holds

  Impl(VideoSource from, const VideoOptions& how) : source(std::move(from)), options(how) {
    auto decoder = std::make_unique<Decoder>(source, options);
    if (!PacketIndex::possible(*decoder)) {
      scan_all(*decoder);
    } else if (!open_plain(std::move(decoder))) {
      rescan();
    }
  }

  bool open_plain(std::unique_ptr<Decoder> decoder) {
    const av::LogScope scope(decoder->log());
    std::optional<PacketIndex> index = PacketIndex::read(*decoder, options.keep_bytes);
    if (!index) return false;
    plain.emplace(std::move(decoder), std::move(*index));
    Orientation orientation;
    const bool as_said = plain->decode({0}, source, options, [&](std::size_t, const AVFrame& first) {
      describe(plain->decoder(), first, info, orientation);
      note_size(first, info);
      return true;
    });
    if (!as_said) return false;
    const auto& packets = plain->index().packets;
    const auto& shown = plain->index().shown;
    for (const std::size_t packet : shown) info.pts.push_back(packets[packet].pts - packets[shown.front()].pts);
    info.average_fps = rate_of(plain->decoder(), info);
    to_rgb = RgbConverter(info.coded_width, info.coded_height, orientation);
    return true;
  }

  void rescan() {
    plain.reset();
    Decoder decoder(source, options);
    scan_all(decoder);
  }

  void scan_all(Decoder& decoder) {
    std::size_t bytes = 0;
    bool full = false;
    Orientation orientation;
    held.clear();
    info = scan(decoder, orientation, [&](const VideoInfo&, AVFrame& picture) {
      bytes += picture_bytes(picture);
      full = full || bytes > options.keep_bytes;
      if (!full) {
        av::FramePtr copy = av::make_frame();
        av_frame_move_ref(copy.get(), &picture);
        held.push_back(std::move(copy));
      }
      return true;
    });
    to_rgb = RgbConverter(info.coded_width, info.coded_height, orientation);
  }

  Frame convert(std::size_t index, const AVFrame& picture) {
    Frame out = to_rgb(picture);
    out.seconds = info.seconds(index);
    return out;
  }

  void check_range(std::span<const std::size_t> indices) const {
    for (const std::size_t index : indices) {
      if (index < info.frames()) continue;
      throw content_error(source.name() + ": frame " + std::to_string(index) + " asked, but it has " +
                          std::to_string(info.frames()));
    }
  }

  /// The distinct frames of a plain stream; false if it turns out to be none.
  bool from_packets(const std::set<std::size_t>& wanted, std::map<std::size_t, Frame>& found) {
    return plain->decode(wanted, source, options, [&](std::size_t index, const AVFrame& picture) {
      if (picture.width != info.coded_width || picture.height != info.coded_height) return false;
      found.emplace(index, convert(index, picture));
      return true;
    });
  }

  /// The distinct frames of a stream that was scanned.
  void from_scan(std::set<std::size_t> wanted, std::map<std::size_t, Frame>& found) {
    for (const std::size_t index : wanted) {
      if (index < held.size()) found.emplace(index, convert(index, *held[index]));
    }
    wanted.erase(wanted.begin(), wanted.lower_bound(held.size()));
    if (wanted.empty()) return;
    Orientation orientation;
    Decoder decoder(source, options);
    (void)scan(decoder, orientation, [&](const VideoInfo& so_far, const AVFrame& picture) {
      const std::size_t index = so_far.frames() - 1;
      if (wanted.erase(index) > 0) found.emplace(index, convert(index, picture));
      return !wanted.empty();
    });
    if (!wanted.empty()) throw content_error(source.name() + ": the file changed while it was read");
  }
};

Video::Video(VideoSource source, const VideoOptions& options)
    : impl_(std::make_unique<Impl>(std::move(source), options)) {}
Video::~Video() = default;
Video::Video(Video&&) noexcept = default;
Video& Video::operator=(Video&&) noexcept = default;

const VideoInfo& Video::info() const { return impl_->info; }

std::vector<Frame> Video::pick(const std::function<std::vector<std::size_t>(const VideoInfo&)>& choose) {
  std::vector<std::size_t> indices = choose(impl_->info);
  impl_->check_range(indices);
  std::map<std::size_t, Frame> found;
  if (impl_->plain && !impl_->from_packets({indices.begin(), indices.end()}, found)) {
    found.clear();
    impl_->rescan();
    indices = choose(impl_->info);
    impl_->check_range(indices);
  }
  if (!impl_->plain) impl_->from_scan({indices.begin(), indices.end()}, found);
  std::vector<Frame> result;
  result.reserve(indices.size());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const bool again =
        std::find(indices.begin() + static_cast<std::ptrdiff_t>(i) + 1, indices.end(), indices[i]) != indices.end();
    result.push_back(again ? found.at(indices[i]) : std::move(found.at(indices[i])));
  }
  return result;
}

std::vector<Frame> Video::frames(std::span<const std::size_t> indices) {
  return pick([&](const VideoInfo&) { return std::vector<std::size_t>(indices.begin(), indices.end()); });
}

Frame Video::frame(std::size_t index) { return std::move(frames(std::span(&index, 1)).front()); }

VideoInfo probe(const VideoSource& source, const VideoOptions& options) {
  Orientation orientation;
  Decoder decoder(source, options);
  return scan(decoder, orientation, [](const VideoInfo&, const AVFrame&) { return true; });
}

DecodedVideo decode_all(const VideoSource& source, const VideoOptions& options) {
  DecodedVideo result;
  std::optional<RgbConverter> to_rgb;
  Orientation orientation;
  Decoder decoder(source, options);
  result.info = scan(decoder, orientation, [&](const VideoInfo& info, const AVFrame& picture) {
    if (!to_rgb) to_rgb.emplace(info.coded_width, info.coded_height, orientation);
    result.frames.push_back((*to_rgb)(picture));
    result.frames.back().seconds = info.seconds(info.frames() - 1);
    return true;
  });
  return result;
}

Frame first_frame(const VideoSource& source, const VideoOptions& options) {
  Frame result;
  Orientation orientation;
  Decoder decoder(source, options);
  (void)scan(decoder, orientation, [&](const VideoInfo& info, const AVFrame& picture) {
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
