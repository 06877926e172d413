/// Scores captions against videos: each video is encoded once, each caption embedded once, then every pair is matched.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
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

/// What the CNN saw in each video: enough for any later query.
struct GalleryFeatures {
  std::vector<std::string> names;      ///< of the videos that could be read
  at::Tensor grids;                    ///< (videos, clips, h, w, hidden) means over frames, in the model's type
  std::vector<Unreadable> unreadable;  ///< the others, in the source's order
};

/// Captions or queries as tokens.
struct Captions {
  at::Tensor ids, mask;                ///< (captions, length) int64
  std::vector<std::int64_t> text_ids;  ///< of each caption
};

struct ScoreOptions {
  std::string aggregation = "mean";  ///< score_agg_func
  std::int64_t pairs = 256;          ///< eval_retrieval_batch_size: pairs matched at a time, times clips
};

/// Probability of a match of every caption with every video.
struct ScoreMatrix {
  at::Tensor scores;                   ///< (captions, videos) fp32 on the CPU, not rounded
  std::vector<std::int64_t> text_ids;  ///< of the rows
  std::vector<std::string> videos;     ///< of the columns: the readable ones, then the others, which score 0
};

struct Hit {
  std::int64_t video;  ///< position in GalleryFeatures::names
  float score;
};

/// Encodes every video that can be read, `videos_per_batch` at a time, in evaluation mode and the model's own
/// precision. throws  content_error if none can be read, or their clips differ in number or size
GalleryFeatures encode_gallery(model::ClipBert& model, GallerySource& source, std::int64_t videos_per_batch);

/// Matches all captions with all videos. What comes out does not depend on `pairs` but for rounding.
ScoreMatrix score_all(model::ClipBert& model, const Captions& captions, const GalleryFeatures& gallery,
                      const ScoreOptions& options = {});

/// The best `top_k` videos of each query, best first; of equal scores the earlier video comes first.
std::vector<std::vector<Hit>> rank_videos(model::ClipBert& model, const Captions& queries,
                                          const GalleryFeatures& gallery, std::int64_t top_k,
                                          const ScoreOptions& options = {});

/// Every pair with its unrounded score, video after video: what retrieval_metrics() takes.
std::vector<Score> records(const ScoreMatrix& matrix);

/// The content of results.json: [{"vid_id", "txt_id", "score"}] in the order of records(), rounded to 4 decimals.
nlohmann::json results_json(const ScoreMatrix& matrix);

}  // namespace clipbert::eval
