/// Videos as the model wants them: clips of frames, fitted, normalised; with a cache of decoded videos.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "data/captions.hpp"
#include "data/image.hpp"
#include "data/random.hpp"
#include "data/sampler.hpp"
#include "data/video.hpp"

namespace clipbert::data {

/// How a video is cut into clips. Defaults as ClipBERT's config.py.
struct ClipOptions {
  std::int64_t n_clips = 1, num_frm = 3;
  double fps = 1;
  Strategy strategy = Strategy::rand;
  bool by_strategy = true;  ///< each clip by the strategy; else the clips lie evenly over the video
  int max_img_size = 448;
  Normalisation normalisation;

  [[nodiscard]] std::int64_t pictures() const { return n_clips * num_frm; }
  [[nodiscard]] std::size_t floats() const {
    return static_cast<std::size_t>(pictures()) * 3 * static_cast<std::size_t>(max_img_size) *
           static_cast<std::size_t>(max_img_size);
  }
};
/// The same clips for an evaluation: nothing random (rand becomes middle), several clips lie evenly over the video.
[[nodiscard]] ClipOptions for_evaluation(ClipOptions options);

/// Indices of the n_clips * num_frm frames, clip-major.
/// throws  content_error (reason only) if no frame can be picked
[[nodiscard]] std::vector<std::size_t> pick_clips(const VideoInfo& info, const ClipOptions& options, Random& random);

struct VideoSetOptions {
  ClipOptions clips;
  std::size_t cache_bytes = std::size_t{1} << 30;     ///< decoded RGB of all videos, where all fit; 0: none
  double max_bad_videos = 0.05;                       ///< share of the set that may be unreadable
  std::function<void(const std::string&)> warn = {};  ///< takes each warning once, from any thread
  const std::atomic<bool>* stop = nullptr;            ///< ends decoding early when it becomes true
};

/// A fixed list of videos in a folder or LMDB; safe to use from many threads, which changes no byte of the result.
class VideoSet {
 public:
  /// throws  content_error if a name is refused or ambiguous, or more than max_bad_videos of the files are missing
  VideoSet(std::vector<std::string> clips, const ClipFolder& folder, VideoSetOptions options);

  [[nodiscard]] std::size_t size() const { return clips_.size(); }
  [[nodiscard]] const std::string& name(std::size_t video) const { return clips_.at(video); }
  [[nodiscard]] const VideoSetOptions& options() const { return options_; }
  /// Empty where the video is missing.
  [[nodiscard]] const std::optional<VideoSource>& source(std::size_t video) const { return sources_.at(video); }

  /// Fills `out` with normalised frames; false if the video is bad, which is counted and named once.
  /// shape   out (n_clips * num_frm, 3, max_img_size, max_img_size)
  /// throws  content_error when more than max_bad_videos of the set are bad
  [[nodiscard]] bool load(std::size_t video, Random& random, std::span<float> out) const;
  /// One video's clips where nothing is random.
  /// throws  content_error with the reason if the video is bad
  [[nodiscard]] std::vector<float> frames(std::size_t video) const;

  [[nodiscard]] bool is_bad(std::size_t video) const;
  /// Names and reasons of what could not be read so far, and of what is damaged but plays.
  [[nodiscard]] std::vector<ClipNote> bad() const;
  [[nodiscard]] std::vector<ClipNote> damaged() const;
  [[nodiscard]] std::size_t cached_bytes() const;

 private:
  void fill(std::size_t video, Random& random, std::span<float> out) const;
  [[nodiscard]] std::shared_ptr<const DecodedVideo> cached(std::size_t video) const;
  [[nodiscard]] std::vector<Frame> read(std::size_t video, Random& random) const;
  [[nodiscard]] static std::size_t cache_bytes(const VideoInfo& info);
  [[nodiscard]] bool fits_cache(std::size_t video, const VideoInfo& info) const;
  void keep(std::size_t video, std::shared_ptr<const DecodedVideo> whole) const;
  void note_damage(std::size_t video, const VideoInfo& info) const;
  void note_bad(std::size_t video, const std::string& reason) const;
  [[nodiscard]] std::string too_many_bad() const;

  std::vector<std::string> clips_;
  std::vector<std::optional<VideoSource>> sources_;
  VideoSetOptions options_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<std::size_t, std::shared_ptr<const DecodedVideo>> cache_;
  mutable std::size_t cached_bytes_ = 0;
  mutable std::map<std::size_t, std::string> bad_, damaged_;
};

}  // namespace clipbert::data
