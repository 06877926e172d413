/// Which frames of a video make a clip.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace clipbert::data {

enum class Strategy { rand, uniform, start, middle, end };
/// throws  usage_error for any other word
[[nodiscard]] Strategy strategy_of(std::string_view name);

/// The time line of one stream.
struct TimeLine {
  std::span<const std::int64_t> pts;     ///< ticks after the first shown frame, in the decoder's output order
  std::int64_t frames = 0;               ///< frames of the stream
  std::optional<std::int64_t> duration;  ///< ticks; none: frames are picked by index
  double average_fps = 0;
};

/// One clip asked for.
struct ClipRequest {
  std::int64_t num_frm = 1;
  double target_fps = 1;
  Strategy strategy = Strategy::rand;        ///< decides where `clips` is none
  std::optional<std::int64_t> clips = {};    ///< the video is seen as so many clips ...
  std::int64_t clip = 0;                     ///< ... and this one is taken
  bool safeguard = false;                    ///< a last time stamp below 0.8 of the duration replaces it
  std::optional<std::int64_t> max_pts = {};  ///< what the clip before found
};

struct PickedFrames {
  std::vector<std::size_t> indices;     ///< into pts; empty: nothing is shown in the clip's time
  std::optional<std::int64_t> max_pts;  ///< for the next clip's request
};

/// Picks the frames of one clip; `draw` gives uniform numbers in [0, 1), used by the rand strategy only.
/// source  ClipBERT (Lei et al. 2021), src/datasets/decoder.py: double arithmetic, positions in float as torch.linspace
[[nodiscard]] PickedFrames pick_frames(const TimeLine& line, const ClipRequest& request,
                                       const std::function<double()>& draw);

}  // namespace clipbert::data
