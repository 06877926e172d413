#include "cli/retrieve.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <amp_torch/op_cast.hpp>
#include <deque>
#include <future>

#include "cli/weights.hpp"
#include "config/errors.hpp"
#include "model/clipbert.hpp"
#include "train/checkpoint.hpp"

namespace fs = std::filesystem;

namespace clipbert::cli {

/// The next videos, each decoded by a thread of its own while the model works on earlier ones.
struct Gallery::Ahead {
  std::size_t window = 0;
  std::int64_t first = 0;  ///< video of waiting.front()
  std::deque<std::future<std::vector<float>>> waiting;
};

Gallery::Gallery(std::shared_ptr<const data::VideoSet> videos, std::int64_t ahead)
    : videos_(std::move(videos)), ahead_(std::make_unique<Ahead>()) {
  ahead_->window = static_cast<std::size_t>(std::max<std::int64_t>(1, ahead));
}
Gallery::~Gallery() = default;

std::int64_t Gallery::size() const { return static_cast<std::int64_t>(videos_->size()); }
std::string Gallery::name(std::int64_t video) const { return videos_->name(static_cast<std::size_t>(video)); }

eval::VideoClips Gallery::clips(std::int64_t video) {
  Ahead& a = *ahead_;
  while (!a.waiting.empty() && a.first < video) a.waiting.pop_front(), ++a.first;
  if (a.waiting.empty() || a.first != video) a.waiting.clear(), a.first = video;
  for (auto next = a.first + static_cast<std::int64_t>(a.waiting.size()); a.waiting.size() < a.window && next < size();
       ++next) {
    a.waiting.push_back(
        std::async(std::launch::async, [this, next] { return videos_->frames(static_cast<std::size_t>(next)); }));
  }
  auto front = std::move(a.waiting.front());
  a.waiting.pop_front(), ++a.first;
  const data::ClipOptions& how = videos_->options().clips;
  return {.clips = how.n_clips,
          .frames_per_clip = how.num_frm,
          .height = how.max_img_size,
          .width = how.max_img_size,
          .frames = front.get()};
}

eval::Captions tokenized(const data::Tokenizer& tokenizer, const std::vector<std::string>& texts,
                         std::int64_t max_txt_len) {
  const auto rows = static_cast<std::int64_t>(texts.size());
  eval::Captions out{.ids = at::empty({rows, max_txt_len}, at::kLong),
                     .mask = at::empty({rows, max_txt_len}, at::kLong),
                     .text_ids = {}};
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto fitted = tokenizer.fit(texts[static_cast<std::size_t>(row)], max_txt_len);
    std::ranges::copy(fitted.ids, out.ids.data_ptr<std::int64_t>() + row * max_txt_len);
    std::ranges::copy(fitted.mask, out.mask.data_ptr<std::int64_t>() + row * max_txt_len);
    out.text_ids.push_back(row);
  }
  return out;
}

std::vector<std::string> texts_of(const data::CaptionFile& captions) {
  std::vector<std::string> texts;
  for (const auto& caption : captions.records) texts.push_back(caption.text);
  return texts;
}

std::string cut_texts(const data::Tokenizer& tokenizer, const std::vector<std::string>& texts,
                      std::int64_t max_txt_len) {
  std::size_t count = 0;
  std::string first;
  for (const auto& text : texts) {
    if (static_cast<std::int64_t>(tokenizer.encode(text).size()) > max_txt_len && count++ == 0) first = text;
  }
  if (count == 0) return {};
  return std::to_string(count) + " of " + std::to_string(texts.size()) + " texts are cut to max_txt_len " +
         std::to_string(max_txt_len) + " tokens; the first is \"" + first + "\"";
}

namespace {

at::ScalarType low_type(const config::Config& c) { return *c.amp_dtype == "fp16" ? at::kHalf : at::kBFloat16; }

fs::path weights_file(const config::Config& c, const ModelChoice& choice, std::string& step) {
  if (choice.checkpoint) {
    step = choice.checkpoint->stem().string();
    return *choice.checkpoint;
  }
  const train::ModelFiles files(*c.output_dir);
  const auto saved = files.steps();
  if (saved.empty()) throw content_error(*c.output_dir + ": holds no weights (ckpt/model_step_N.*); train first");
  std::int64_t wanted = choice.step.step;
  if (choice.step.best) wanted = files.best().value_or(saved.back());
  if (!choice.step.best && wanted < 0) wanted = saved.back();
  if (std::ranges::find(saved, wanted) == saved.end()) {
    std::string have;
    for (const auto s : saved) have += " " + std::to_string(s);
    throw usage_error("inference_model_step " + std::to_string(wanted) + ": " + *c.output_dir +
                      " has weights of steps" + have + (files.best() ? " and best" : ""));
  }
  step = std::to_string(wanted);
  return files.file_of(wanted);
}

}  // namespace

TrainedModel open_model(config::Loaded loaded, std::span<const std::string> paths, const ModelChoice& choice) {
  TrainedModel out;
  out.settings = settle(std::move(loaded), paths);
  const config::Config& c = out.settings.config;
  out.file = weights_file(c, choice, out.step);
  out.tokenizer = open_tokenizer(out.settings, c.tokenizer_dir.value_or(""));
  out.model = std::make_shared<model::ClipBert>(out.settings.model, c.cnn);
  load_weights(*out.model, out.file);
  if (*c.opt_level == "O2" || *c.opt_level == "O3") {
    out.model->cast(low_type(c),
                    {.trained_fp32 = *c.keep_batchnorm_fp32, .frozen_fp32 = c.frozen_norm_dtype == "fp32"});
  }
  out.model->eval();
  return out;
}

amp_torch::OpCast scoring_region(const config::Config& c) {
  return *c.opt_level == "O1" ? amp_torch::OpCast(low_type(c)) : amp_torch::OpCast();
}

std::int64_t videos_ahead(const config::Config& c) {
  return std::clamp<std::int64_t>(c.inference_batch_size, 1, std::max(1, decode_threads(c)));
}

Condition encode_videos(TrainedModel& trained, const std::shared_ptr<const data::VideoSet>& videos,
                        const eval::TakeGrid& take) {
  const auto& c = trained.settings.config;
  const auto ahead = videos_ahead(c);
  expect_memory(scoring_clips(c), std::min(ahead, static_cast<std::int64_t>(videos->size())),
                "the frames of the videos that are decoded at a time");
  Gallery gallery(videos, ahead);
  const auto cast = scoring_region(c);
  Condition condition;
  condition.unreadable = eval::encode_each(*trained.model, gallery, take);
  condition.damaged = videos->damaged();
  return condition;
}

eval::ScoreMatrix score(TrainedModel& trained, const std::vector<std::string>& texts, const eval::Features& features) {
  const config::Config& c = trained.settings.config;
  const auto cast = scoring_region(c);
  return eval::score_all(*trained.model, tokenized(*trained.tokenizer, texts, c.max_txt_len), features,
                         {.aggregation = c.score_agg_func, .pairs = c.eval_retrieval_batch_size});
}

}  // namespace clipbert::cli
