#include "eval/retrieval.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <new>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "config/errors.hpp"
#include "model/eval_mode.hpp"
#include "model/loss.hpp"

namespace clipbert::eval {
namespace {

using Shape = std::vector<std::int64_t>;

/// shape  -> (clips, frames, 3, height, width)
/// throws  content_error if there are no frames, or `first` is another shape
Shape checked_shape(const VideoClips& video, const Shape& first) {
  Shape shape{video.clips, video.frames_per_clip, 3, video.height, video.width};
  const auto count = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  if (count == 0 || count != static_cast<std::int64_t>(video.frames.size())) {
    throw content_error("no frames were decoded");
  }
  if (!first.empty() && shape != first) {
    throw content_error("its clips differ in number or size from those of the first video");
  }
  return shape;
}

at::Tensor index_tensor(const Shape& values, at::Device device) { return at::tensor(values, at::kLong).to(device); }

/// Captions of one length.
struct TextGroup {
  at::Tensor text, mask;  ///< (N, L, hidden), (N, L)
  Shape rows;             ///< of the score matrix
};

std::vector<TextGroup> group_by_length(model::ClipBert& model, const Captions& captions) {
  std::map<std::int64_t, Shape> by_length;
  for (std::int64_t row = 0; row < captions.mask.size(0); ++row) {
    by_length[model::used_length(captions.mask.narrow(0, row, 1))].push_back(row);
  }
  std::vector<TextGroup> groups;
  for (auto& [length, rows] : by_length) {
    const auto pick = [&, columns = length, which = index_tensor(rows, at::kCPU)](const at::Tensor& t) {
      return t.index_select(0, which).narrow(1, 0, columns).contiguous().to(model.device());
    };
    groups.push_back({model.embed_text(pick(captions.ids)), pick(captions.mask), std::move(rows)});
  }
  return groups;
}

/// Scores of `count` pairs from `begin` on in video-major order; what lies behind the last pair repeats it.
/// shape  visual (videos * clips, T, hidden) -> (count)
at::Tensor score_pairs(model::ClipBert& model, const TextGroup& group, const at::Tensor& visual, std::int64_t clips,
                       std::int64_t begin, std::int64_t count, const std::string& aggregation) {
  const auto texts = group.text.size(0), last = texts * (visual.size(0) / clips) - 1;
  Shape text_rows, visual_rows;
  for (std::int64_t c = 0; c < clips; ++c) {
    for (auto next = begin; next < begin + count; ++next) {
      const auto pair = std::min(next, last);
      text_rows.push_back(pair % texts);
      visual_rows.push_back(pair / texts * clips + c);
    }
  }
  const auto rows = index_tensor(text_rows, group.text.device());
  const auto logits =
      model.match(group.text.index_select(0, rows), visual.index_select(0, index_tensor(visual_rows, visual.device())),
                  group.mask.index_select(0, rows));
  return model::match_probability(logits.unflatten(0, {clips, -1}), aggregation).to(at::kCPU, at::kFloat).contiguous();
}

/// How many pairs a call of the model takes: a whole number of them is asked for, so few keep a short search cheap, and
/// more are not faster on the CPU.
constexpr std::int64_t most_pairs = 32;
/// Videos whose features are in memory at a time.
constexpr std::int64_t block = 64;

}  // namespace

void GalleryFeatures::add(std::string name, const at::Tensor& grid) {
  names_.push_back(std::move(name));
  grids_.push_back(grid);
}

at::Tensor GalleryFeatures::grids(std::int64_t first, std::int64_t last) const {
  const auto from = grids_.begin() + first;
  return at::stack(std::vector<at::Tensor>(from, from + (last - first)));
}

std::vector<Unreadable> encode_each(model::ClipBert& model, GallerySource& source, const TakeGrid& take) {
  const model::EvalMode mode(model);
  std::vector<Unreadable> unreadable;
  Shape first;
  for (std::int64_t i = 0; i < source.size(); ++i) {
    VideoClips video;
    try {
      video = source.clips(i);
      first = checked_shape(video, first);
    } catch (const std::bad_alloc&) {  // of this video; the others may be smaller
      unreadable.push_back({source.name(i), "it takes more memory than there is"});
      continue;
    } catch (const content_error& error) {
      unreadable.push_back({source.name(i), error.what()});
      continue;
    }
    const auto frames = at::from_blob(video.frames.data(), first, at::kFloat).to(model.device());
    take(i, video, model.encode_frames(frames).mean(1));
  }
  return unreadable;
}

void expect_readable(const std::vector<Unreadable>& unreadable, std::int64_t asked) {
  if (static_cast<std::int64_t>(unreadable.size()) < asked) return;
  std::string reasons;
  for (const auto& video : unreadable) reasons += "; " + video.name + ": " + video.reason;
  throw content_error("none of the " + std::to_string(asked) + " videos can be read" + reasons);
}

GalleryFeatures encode_gallery(model::ClipBert& model, GallerySource& source) {
  GalleryFeatures features;
  features.set_unreadable(encode_each(
      model, source,
      [&](std::int64_t video, const VideoClips&, const at::Tensor& grid) { features.add(source.name(video), grid); }));
  expect_readable(features.unreadable(), source.size());
  return features;
}

ScoreMatrix score_all(model::ClipBert& model, const Captions& captions, const Features& features,
                      const ScoreOptions& options) {
  const model::EvalMode mode(model);
  const auto groups = group_by_length(model, captions);
  const auto videos = static_cast<std::int64_t>(features.names().size());
  const auto missing = static_cast<std::int64_t>(features.unreadable().size());
  const auto step = std::clamp<std::int64_t>(options.pairs, 1, most_pairs);
  ScoreMatrix matrix{.scores = at::zeros({captions.ids.size(0), videos + missing}),
                     .text_ids = captions.text_ids,
                     .videos = features.names(),
                     .readable = videos};
  for (const auto& video : features.unreadable()) matrix.videos.push_back(video.name);
  auto scores = matrix.scores.accessor<float, 2>();
  for (std::int64_t first = 0; first < videos; first += block) {
    const auto grids = features.grids(first, std::min(first + block, videos)).to(model.device(), model.type());
    const auto clips = grids.size(1);
    const auto visual = model.embed_grid(grids.flatten(0, 1).unsqueeze(1));
    for (const auto& group : groups) {
      const auto texts = static_cast<std::int64_t>(group.rows.size()), pairs = texts * grids.size(0);
      for (std::int64_t begin = 0; begin < pairs; begin += step) {
        const auto some = score_pairs(model, group, visual, clips, begin, step, options.aggregation);
        const auto* value = some.const_data_ptr<float>();
        for (auto pair = begin; pair < std::min(begin + step, pairs); ++pair, ++value) {
          scores[group.rows[static_cast<std::size_t>(pair % texts)]][first + pair / texts] = *value;
        }
      }
    }
  }
  return matrix;
}

std::vector<std::vector<Hit>> best_videos(const ScoreMatrix& matrix, std::int64_t top_k) {
  const auto scores = matrix.scores.accessor<float, 2>();
  std::vector<std::vector<Hit>> best;
  for (std::int64_t row = 0; row < scores.size(0); ++row) {
    auto& hits = best.emplace_back();
    for (std::int64_t video = 0; video < matrix.readable; ++video) hits.push_back({video, scores[row][video]});
    std::ranges::stable_sort(hits, std::greater<>(), &Hit::score);
    hits.resize(static_cast<std::size_t>(std::clamp<std::int64_t>(top_k, 0, matrix.readable)));
  }
  return best;
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

void write_results(const ScoreMatrix& matrix, const std::function<void(std::string_view)>& write) {
  const auto scores = matrix.scores.accessor<float, 2>();
  const char* between = "[";
  for (std::int64_t video = 0; video < scores.size(1); ++video) {
    const std::string name = nlohmann::json(matrix.videos[static_cast<std::size_t>(video)])
                                 .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    std::string piece;
    for (std::int64_t text = 0; text < scores.size(0); ++text) {
      piece += between + (R"({"vid_id": )" + name) + R"(, "txt_id": )" +
               std::to_string(matrix.text_ids[static_cast<std::size_t>(text)]) + R"(, "score": )" +
               nlohmann::json(rounded_score(scores[text][video])).dump() + "}";
      between = ",\n";
    }
    write(piece);
  }
  write(scores.size(0) * scores.size(1) == 0 ? "[]\n" : "]\n");
}

}  // namespace clipbert::eval
