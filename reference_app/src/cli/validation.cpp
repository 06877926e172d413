#include "cli/validation.hpp"

#include <torch/torch.h>

#include <algorithm>

#include "cli/retrieve.hpp"
#include "eval/retrieval.hpp"
#include "model/clipbert.hpp"
#include "model/eval_mode.hpp"
#include "model/loss.hpp"

namespace clipbert::cli {
namespace {

void append(Values& out, const std::string& direction, const eval::RankMetrics& m) {
  out.insert(out.end(), {{direction + "_r1", m.r1},
                         {direction + "_r5", m.r5},
                         {direction + "_r10", m.r10},
                         {direction + "_medianR", m.medianR},
                         {direction + "_meanR", m.meanR}});
}

}  // namespace

bool better(const std::string& metric, double a, double b) {
  const bool falls = metric.ends_with("loss") || metric.ends_with("R");
  return falls ? a < b : a > b;
}

bool is_measured(const std::string& metric) {
  Values names{{"loss", 0}, {"acc", 0}};
  for (const char* direction : {"text2video", "video2text"}) append(names, direction, {});
  return std::ranges::find(names, metric, &Values::value_type::first) != names.end();
}

eval::Retrieval metrics_of(const eval::ScoreMatrix& matrix, const std::vector<data::Caption>& captions) {
  eval::TextToVideo truth;
  for (std::size_t i = 0; i < captions.size(); ++i) truth.emplace_back(static_cast<std::int64_t>(i), captions[i].clip);
  return eval::retrieval_metrics(eval::records(matrix), truth);
}

Validation::Validation(const Settings& settings, const config::DatasetConfig& set,
                       std::shared_ptr<const data::Tokenizer> tokenizer, std::function<void(const std::string&)> warn)
    : config_(settings.config),
      name_(set.name),
      captions_(data::read_good_captions(set.txt)),
      tokenizer_(std::move(tokenizer)) {
  const config::Config& c = config_;
  set_ = std::make_shared<const data::RetrievalSet>(
      captions_, data::ClipFolder(set.img), tokenizer_,
      data::VideoSetOptions{.clips = scoring_clips(c),
                            .cache_bytes = static_cast<std::size_t>(c.video_cache_mb) << 18,  // a quarter of it
                            .max_bad_videos = c.max_bad_videos,
                            .warn = std::move(warn)},
      data::RetrievalOptions{.max_txt_len = c.max_txt_len,
                             .itm_neg_size = c.itm_neg_size,
                             .itm_hard_neg = c.itm_hard_neg,
                             .max_n_example_per_group = 1,
                             .training = false,
                             .seed = static_cast<std::uint64_t>(c.seed)});
  expect_memory(scoring_clips(c), std::min(c.val_batch_size, set_->size()), "the frames of a validation batch");
}

Values Validation::pairs(model::ClipBert& model) const {
  const model::EvalMode mode(model);
  data::Loader loader(set_, {.batch_size = config_.val_batch_size,
                             .workers = loader_threads(config_),
                             .shuffle = false,
                             .endless = false,
                             .seed = static_cast<std::uint64_t>(config_.seed)});
  double loss = 0, right = 0, count = 0, elements = 0;
  constexpr int debug_batches = 6;  // as the original's debug mode
  for (int done = 0; !config_.debug || done < debug_batches; ++done) {
    auto batch = loader.next();
    if (!batch) break;
    const auto frames = at::from_blob(
        batch->frames.data(), {batch->videos, batch->clips * batch->frames_per_clip, 3, batch->height, batch->width},
        at::kFloat);
    const auto ids = at::from_blob(batch->ids.data(), {batch->texts, batch->length}, at::kLong);
    const auto mask = at::from_blob(batch->mask.data(), {batch->texts, batch->length}, at::kLong);
    const auto labels = at::from_blob(batch->labels.data(), {batch->texts}, at::kLong);
    const auto logits = model.forward_clips(frames, batch->clips, ids, mask, batch->n_examples).to(at::kFloat);
    const auto losses = model::example_losses(
        logits, labels, batch->videos,
        {.aggregation = config_.score_agg_func, .type = config_.loss_type, .margin = config_.margin});
    loss += losses.sum().item<double>();
    elements += static_cast<double>(losses.numel());
    const auto matched = model::match_probability(logits, config_.score_agg_func) > 0.5;
    right += matched.eq(labels.to(at::kBool)).sum().item<double>();
    count += static_cast<double>(batch->texts);
  }
  return {{"loss", elements > 0 ? loss / elements : 0}, {"acc", count > 0 ? right / count : 0}};
}

Values Validation::run(model::ClipBert& model) const {
  const auto cast = scoring_region(config_);  // as eval and search do
  Values values = pairs(model);
  Gallery gallery({set_, &set_->videos()}, videos_ahead(config_));
  const auto features = eval::encode_gallery(model, gallery);
  const auto matrix =
      eval::score_all(model, tokenized(*tokenizer_, texts_of(captions_), config_.max_txt_len), features,
                      {.aggregation = config_.score_agg_func, .pairs = config_.eval_retrieval_batch_size});
  const auto retrieval = metrics_of(matrix, captions_.records);
  append(values, "text2video", retrieval.text2video.metrics);
  append(values, "video2text", retrieval.video2text.metrics);
  return values;
}

}  // namespace clipbert::cli
