/// Scores captions against videos: each video is encoded once, each caption embedded once, then every pair is matched.
/// A score is a function of its video and its caption alone. Videos are encoded one at a time, captions of equal length
/// are matched together, always the same number of pairs in a call: how many others are asked for changes no bit.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "eval/metrics.hpp"
#include "model/clipbert.hpp"

namespace clipbert::eval {

/// All clips of one video as plain numbers: (clips, frames_per_clip, 3, height, width), RGB, normalised.
struct VideoClips {
  std::int64_t clips = 0, frames_per_clip = 0, height = 0, width = 0;
  std::vector<float> frames;
};

/// The videos that are searched; asked in the order 0, 1, 2, ..., so an implementation can read ahead.
class GallerySource {
 public:
  virtual ~GallerySource() = default;
  [[nodiscard]] virtual std::int64_t size() const = 0;
  [[nodiscard]] virtual std::string name(std::int64_t video) const = 0;
  /// throws  content_error if the video cannot be read
  virtual VideoClips clips(std::int64_t video) = 0;
};

/// A video that could not be read, and why.
struct Unreadable {
  std::string name, reason;
};

/// What the CNN saw in each video, wherever it is kept: enough for any later query.
class Features {
 public:
  virtual ~Features() = default;
  /// Of the videos that could be read.
  [[nodiscard]] virtual const std::vector<std::string>& names() const = 0;
  /// -> (last - first, clips, h, w, hidden): means over the frames of each clip, in the type of the model's weights
  [[nodiscard]] virtual at::Tensor grids(std::int64_t first, std::int64_t last) const = 0;
  /// The others, in the source's order.
  [[nodiscard]] virtual const std::vector<Unreadable>& unreadable() const = 0;
};

/// Features in memory.
class GalleryFeatures final : public Features {
 public:
  void add(std::string name, const at::Tensor& grid);
  void set_unreadable(std::vector<Unreadable> videos) { unreadable_ = std::move(videos); }
  [[nodiscard]] const std::vector<std::string>& names() const override { return names_; }
  [[nodiscard]] at::Tensor grids(std::int64_t first, std::int64_t last) const override;
  [[nodiscard]] const std::vector<Unreadable>& unreadable() const override { return unreadable_; }

 private:
  std::vector<std::string> names_;
  std::vector<at::Tensor> grids_;
  std::vector<Unreadable> unreadable_;
};

/// Captions or queries as tokens.
struct Captions {
  at::Tensor ids, mask;                ///< (captions, length) int64
  std::vector<std::int64_t> text_ids;  ///< of each caption
};

struct ScoreOptions {
  std::string aggregation = "mean";  ///< score_agg_func
  std::int64_t pairs = 256;          ///< eval_retrieval_batch_size: most pairs matched in a call, times clips
};

/// Probability of a match of every caption with every video.
struct ScoreMatrix {
  at::Tensor scores;                   ///< (captions, videos) fp32 on the CPU, not rounded
  std::vector<std::int64_t> text_ids;  ///< of the rows
  std::vector<std::string> videos;     ///< of the columns: the readable ones, then the others, which score 0
  std::int64_t readable = 0;           ///< how many columns hold scores
};

struct Hit {
  std::int64_t video;  ///< column of the matrix
  float score;
};

/// Takes a video that was encoded: its place in the source, its clips, its grid (clips, h, w, hidden).
using TakeGrid = std::function<void(std::int64_t video, const VideoClips& clips, const at::Tensor& grid)>;

/// Encodes every video that can be read, in evaluation mode and the model's own precision, and hands each on at once.
/// -> those that cannot be read, or whose clips differ in number or size from the first one's
std::vector<Unreadable> encode_each(model::ClipBert& model, GallerySource& source, const TakeGrid& take);

/// The same, kept in memory.
/// throws  content_error if none can be read
GalleryFeatures encode_gallery(model::ClipBert& model, GallerySource& source);

/// throws  content_error with all reasons, if that is all of the `asked` videos
void expect_readable(const std::vector<Unreadable>& unreadable, std::int64_t asked);

/// Matches all captions with all videos; holds the features of a few dozen videos at a time.
ScoreMatrix score_all(model::ClipBert& model, const Captions& captions, const Features& features,
                      const ScoreOptions& options = {});

/// The best `top_k` readable videos of each row, best first; of equal scores the earlier column comes first.
std::vector<std::vector<Hit>> best_videos(const ScoreMatrix& matrix, std::int64_t top_k);

/// Every pair with its unrounded score, video after video: what retrieval_metrics() takes.
std::vector<Score> records(const ScoreMatrix& matrix);

/// The content of results.json, piece by piece: [{"vid_id", "txt_id", "score"}, ...] in the order of records(), scores
/// rounded to 4 decimals. A million pairs take no memory.
void write_results(const ScoreMatrix& matrix, const std::function<void(std::string_view)>& write);

}  // namespace clipbert::eval
