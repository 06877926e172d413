/// Videos, animations and still pictures decoded with libav into 8-bit RGB frames with presentation times.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/video_source.hpp"

namespace clipbert::data {

/// One shown picture: 8-bit RGB, row-major (height, width, 3), upright, rows without padding.
struct Frame {
  int width = 0, height = 0;
  double seconds = 0;  ///< after the first shown frame
  std::vector<std::uint8_t> rgb;
};

/// What was found in the stream itself; nothing here is taken from the header's word but the average rate and duration.
struct VideoInfo {
  int stream_index = -1;
  std::string codec, pixel_format;
  int coded_width = 0, coded_height = 0;  ///< as stored
  int width = 0, height = 0;              ///< as every frame comes out, after rotation
  int rotation = 0;                       ///< degrees clockwise, after `mirror`
  bool mirror = false;                    ///< left and right change places
  std::vector<std::int64_t> pts;          ///< ticks after the first shown frame, in the decoder's output order
  double tick_seconds = 0;
  std::optional<std::int64_t> duration;  ///< of the stream, in ticks; Matroska has none
  double average_fps = 0;
  std::int64_t decode_errors = 0;              ///< errors that libav returned; above 0: the file is damaged
  std::string first_error;                     ///< libav's words for the first of them
  std::string complaint;                       ///< libav's first word about broken data, concealed or not; empty: none
  std::vector<std::array<int, 2>> sizes_seen;  ///< stored sizes in order of appearance

  [[nodiscard]] std::size_t frames() const { return pts.size(); }
  [[nodiscard]] bool damaged() const { return decode_errors > 0; }
  [[nodiscard]] double seconds(std::size_t index) const { return static_cast<double>(pts[index]) * tick_seconds; }
};

struct VideoOptions {
  std::size_t keep_bytes = std::size_t{128} << 20;  ///< packets or decoded pictures held until frames are asked for
  double seconds = 8;                               ///< processor time that one pass over a file may take ...
  double seconds_per_megabyte = 8;                  ///< ... and so much more for its size
  const std::atomic<bool>* stop = nullptr;          ///< ends a decode early when it becomes true
};

/// One video, asked for frames by index. Only frames that are asked for are converted to RGB.
/// Plain streams (H.264, HEVC, VP9, AV1 or MJPEG in MP4 or Matroska, sound) are known by their packets: their frames
/// are counted without being decoded, and of the groups of pictures only those with a wanted frame are decoded, up to
/// it and without the pictures that nothing refers to. All else, and what turns out not to be plain, is scanned: one
/// decode of everything, whose pictures are held if they fit `keep_bytes`; else a second one ends at the last wanted
/// frame. The bytes of a frame are the same either way. One libav thread, so damaged files too give the same frames
/// always. Display matrix, colour matrix, range and depth are honoured; untagged colour is BT.601 limited; alpha is
/// dropped; no tone mapping; pixel aspect is ignored (stored pixels); a size that changes comes out as the display
/// size.
class Video {
 public:
  /// throws  content_error (name and reason) if the source is unreadable, shows no frame, or takes too long
  explicit Video(VideoSource source, const VideoOptions& options = {});
  ~Video();
  Video(Video&&) noexcept;
  Video& operator=(Video&&) noexcept;

  /// Of a plain stream: what its packets say, until a decode shows something else.
  [[nodiscard]] const VideoInfo& info() const;
  /// Frames in the order asked; an index may repeat.
  [[nodiscard]] std::vector<Frame> frames(std::span<const std::size_t> indices);
  [[nodiscard]] Frame frame(std::size_t index);
  /// The frames that `choose` picks. It is asked again where decoding shows that the stream was not what its packets
  /// say.
  [[nodiscard]] std::vector<Frame> pick(const std::function<std::vector<std::size_t>(const VideoInfo&)>& choose);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Decodes everything without converting a frame: what is wrong anywhere in the file shows.
/// throws  content_error as Video does
[[nodiscard]] VideoInfo probe(const VideoSource& source, const VideoOptions& options = {});

struct DecodedVideo {
  VideoInfo info;
  std::vector<Frame> frames;
};
/// Every frame of a file, in one pass.
[[nodiscard]] DecodedVideo decode_all(const VideoSource& source, const VideoOptions& options = {});

/// The first frame only: the cheapest proof that a file plays.
[[nodiscard]] Frame first_frame(const VideoSource& source, const VideoOptions& options = {});

/// Extra decoders and versions of libav, for a table of facts: {"libavcodec 59.37.100", ...}.
[[nodiscard]] std::vector<std::string> codec_versions();

}  // namespace clipbert::data
