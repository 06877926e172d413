#include "eval/retrieval.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <new>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "config/errors.hpp"
#include "model/eval_mode.hpp"
#include "model/loss.hpp"

namespace clipbert::eval {
namespace {

/// Videos of equal shape that wait for the CNN.
class PendingVideos {
 public:
  /// throws  content_error if there are no frames, or another shape than before
  void add(const VideoClips& video) {
    const std::vector<std::int64_t> shape{video.clips, video.frames_per_clip, 3, video.height, video.width};
    const auto count = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    if (count == 0 || count != static_cast<std::int64_t>(video.frames.size())) {
      throw content_error("no frames were decoded");
    }
    if (shape_.empty()) shape_ = shape;
    if (shape != shape_) throw content_error("its clips differ in number or size from those of the first video");
    frames_.insert(frames_.end(), video.frames.begin(), video.frames.end());
    ++count_;
  }
  [[nodiscard]] std::int64_t count() const { return count_; }

  /// -> (videos, clips, h, w, hidden), and nothing waits any more
  at::Tensor encode(model::ClipBert& model) {
    std::vector<std::int64_t> shape{count_ * shape_[0], shape_[1], shape_[2], shape_[3], shape_[4]};
    const auto frames = at::from_blob(frames_.data(), shape, at::kFloat).to(model.device());
    const auto grid = model.encode_frames(frames).mean(1).unflatten(0, {count_, shape_[0]});
    frames_.clear();
    count_ = 0;
    return grid;
  }

 private:
  std::vector<std::int64_t> shape_;
  std::vector<float> frames_;
  std::int64_t count_ = 0;
};

at::Tensor index_tensor(const std::vector<std::int64_t>& values, at::Device device) {
  return at::tensor(values, at::kLong).to(device);
}

/// Scores of the pairs [begin, end) in video-major order. text (N, L, hidden), visual (M * clips, T, hidden)
at::Tensor score_range(model::ClipBert& model, const at::Tensor& text, const at::Tensor& mask, const at::Tensor& visual,
                       std::int64_t clips, std::int64_t begin, std::int64_t end, const std::string& aggregation) {
  std::vector<std::int64_t> text_rows, visual_rows;
  for (std::int64_t c = 0; c < clips; ++c) {
    for (auto pair = begin; pair < end; ++pair) {
      text_rows.push_back(pair % text.size(0));
      visual_rows.push_back(pair / text.size(0) * clips + c);
    }
  }
  const auto rows = index_tensor(text_rows, text.device());
  const auto logits =
      model.match(text.index_select(0, rows), visual.index_select(0, index_tensor(visual_rows, visual.device())),
                  mask.index_select(0, rows));
  return model::match_probability(logits.unflatten(0, {clips, -1}), aggregation);
}

}  // namespace

GalleryFeatures encode_gallery(model::ClipBert& model, GallerySource& source, std::int64_t videos_per_batch) {
  const model::EvalMode mode(model);
  GalleryFeatures gallery;
  PendingVideos pending;
  std::vector<at::Tensor> grids;
  for (std::int64_t i = 0; i < source.size(); ++i) {
    try {
      pending.add(source.clips(i));
      gallery.names.push_back(source.name(i));
    } catch (const std::bad_alloc&) {  // of this video; the others may be smaller
      gallery.unreadable.push_back({source.name(i), "it takes more memory than there is"});
    } catch (const content_error& error) {
      gallery.unreadable.push_back({source.name(i), error.what()});
    }
    if (pending.count() >= std::max<std::int64_t>(videos_per_batch, 1)) grids.push_back(pending.encode(model));
  }
  if (pending.count() > 0) grids.push_back(pending.encode(model));
  if (grids.empty()) {
    std::string reasons;
    for (const auto& video : gallery.unreadable) reasons += "; " + video.name + ": " + video.reason;
    throw content_error("none of the " + std::to_string(source.size()) + " videos can be read" + reasons);
  }
  gallery.grids = at::cat(grids);
  return gallery;
}

ScoreMatrix score_all(model::ClipBert& model, const Captions& captions, const GalleryFeatures& gallery,
                      const ScoreOptions& options) {
  const model::EvalMode mode(model);
  const auto device = model.device();
  const auto length = model::used_length(captions.mask);
  const auto mask = captions.mask.narrow(1, 0, length).to(device);
  const auto text = model.embed_text(captions.ids.narrow(1, 0, length).to(device));
  const auto grids = gallery.grids.to(device, model.type());
  const auto clips = grids.size(1);
  const auto visual = model.embed_grid(grids.flatten(0, 1).unsqueeze(1));
  const auto all = text.size(0) * grids.size(0), step = std::max<std::int64_t>(options.pairs, 1);
  std::vector<at::Tensor> scores;
  for (std::int64_t begin = 0; begin < all; begin += step) {
    const auto end = std::min(begin + step, all);
    scores.push_back(score_range(model, text, mask, visual, clips, begin, end, options.aggregation));
  }
  ScoreMatrix matrix{.scores = at::cat(scores).to(at::kCPU, at::kFloat).view({grids.size(0), text.size(0)}).t(),
                     .text_ids = captions.text_ids,
                     .videos = gallery.names};
  for (const auto& video : gallery.unreadable) matrix.videos.push_back(video.name);
  const auto missing = static_cast<std::int64_t>(gallery.unreadable.size());
  matrix.scores = at::constant_pad_nd(matrix.scores, {0, missing}).contiguous();
  return matrix;
}

std::vector<std::vector<Hit>> rank_videos(model::ClipBert& model, const Captions& queries,
                                          const GalleryFeatures& gallery, std::int64_t top_k,
                                          const ScoreOptions& options) {
  const auto matrix = score_all(model, queries, gallery, options);
  const auto scores = matrix.scores.accessor<float, 2>();
  const auto videos = static_cast<std::int64_t>(gallery.names.size());  // those that cannot be read are no hits
  std::vector<std::vector<Hit>> hits;
  for (std::int64_t query = 0; query < scores.size(0); ++query) {
    auto& row = hits.emplace_back();
    for (std::int64_t video = 0; video < videos; ++video) row.push_back({video, scores[query][video]});
    std::ranges::stable_sort(row, std::greater<>(), &Hit::score);
    row.resize(static_cast<std::size_t>(std::clamp<std::int64_t>(top_k, 0, videos)));
  }
  return hits;
}

std::vector<Score> records(const ScoreMatrix& matrix) {
  std::vector<Score> all;
  const auto scores = matrix.scores.accessor<float, 2>();
  for (std::int64_t video = 0; video < scores.size(1); ++video) {
    for (std::int64_t text = 0; text < scores.size(0); ++text) {
      all.push_back({.video = matrix.videos[static_cast<std::size_t>(video)],
                     .text = matrix.text_ids[static_cast<std::size_t>(text)],
                     .score = scores[text][video]});
    }
  }
  return all;
}

nlohmann::json results_json(const ScoreMatrix& matrix) {
  auto list = nlohmann::json::array();
  for (const auto& [video, text, score] : records(matrix)) {
    list.push_back({{"vid_id", video}, {"txt_id", text}, {"score", rounded_score(score)}});
  }
  return list;
}

}  // namespace clipbert::eval
