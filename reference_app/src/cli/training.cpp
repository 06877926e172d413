#include "cli/training.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "cli/retrieve.hpp"
#include "cli/weights.hpp"
#include "config/errors.hpp"
#include "model/clipbert.hpp"

namespace clipbert::cli {

void Warnings::add(const std::string& line) {
  const std::scoped_lock lock(mutex_);
  lines_.push_back(line);
}
std::vector<std::string> Warnings::take() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(lines_, {});
}
std::function<void(const std::string&)> Warnings::sink() {
  return [this](const std::string& line) { add(line); };
}

namespace {

/// Every caption file is read before any is used, so that one report tells all bad lines.
void check_captions(const config::Config& c, Warnings& warnings) {
  std::string bad;
  std::vector<std::string> seen;
  for (const auto* list : {&c.train_datasets, &c.val_datasets}) {
    for (const auto& set : *list) {
      if (std::ranges::find(seen, set.txt) != seen.end()) continue;
      seen.push_back(set.txt);
      const auto file = data::read_captions(set.txt);
      if (const auto report = file.bad_report(); !report.empty()) bad += (bad.empty() ? "" : "; ") + report;
      if (const auto report = file.warning_report(); !report.empty()) warnings.add(report);
    }
  }
  if (!bad.empty()) throw content_error(bad);
}

}  // namespace

TrainingData open_data(const Settings& settings, Warnings& warnings) {
  const config::Config& c = settings.config;
  if (c.train_datasets.empty()) throw usage_error("train_datasets is empty; give [{\"name\", \"txt\", \"img\"}]");
  if (!c.val_datasets.empty() && !is_measured(c.best_metric)) {
    throw usage_error(
        "best_metric " + c.best_metric +
        " is not measured; use loss, acc, or text2video_ or video2text_ with r1, r5, r10, medianR, meanR");
  }
  if (c.train_datasets.size() > 1) warnings.add("train_datasets: only the first is trained on, as in the original");
  check_captions(c, warnings);
  TrainingData out;
  out.tokenizer = open_tokenizer(settings, c.tokenizer_dir.value_or(""));
  for (const auto& line : out.tokenizer->vocabulary().warnings()) warnings.add(line);
  const auto& set = c.train_datasets.front();
  out.captions = data::read_good_captions(set.txt);
  out.set = std::make_shared<const data::RetrievalSet>(
      out.captions, data::ClipFolder(set.img), out.tokenizer,
      data::VideoSetOptions{.clips = training_clips(c),
                            .cache_bytes = static_cast<std::size_t>(c.video_cache_mb) << 20,
                            .max_bad_videos = c.max_bad_videos,
                            .warn = warnings.sink()},
      data::RetrievalOptions{.max_txt_len = c.max_txt_len,
                             .itm_neg_size = c.itm_neg_size,
                             .itm_hard_neg = c.itm_hard_neg,
                             .max_n_example_per_group = c.max_n_example_per_group,
                             .data_ratio = c.data_ratio,
                             .seed = static_cast<std::uint64_t>(c.seed)});
  expect_memory(training_clips(c), std::min(c.train_batch_size, out.set->size()), "the frames of a training batch");
  if (const auto cut = cut_texts(*out.tokenizer, texts_of(out.captions), c.max_txt_len); !cut.empty())
    warnings.add(set.txt + ": " + cut);
  for (const auto& val : c.val_datasets) {
    out.validations.push_back(std::make_unique<Validation>(settings, val, out.tokenizer, warnings.sink()));
  }
  out.plan = train::run_plan(c, out.set->size());
  out.save_steps = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(c.save_steps_ratio * static_cast<double>(out.plan.num_train_steps)));
  return out;
}

train::TrainerSettings trainer_settings(const Settings& settings, const train::RunPlan& plan) {
  train::TrainerSettings s;
  s.config = settings.config;
  s.num_train_steps = plan.num_train_steps;
  s.total_batch = plan.total_train_batch_size;
  s.total_examples = plan.total_n_examples;
  return s;
}

std::shared_ptr<model::ClipBert> build_model(const Settings& settings, bool anew,
                                             const std::function<void(const std::string&)>& said) {
  const config::Config& c = settings.config;
  torch::manual_seed(static_cast<std::uint64_t>(c.seed));
  auto model = std::make_shared<model::ClipBert>(settings.model, c.cnn);
  if (c.freeze_cnn) model->freeze_cnn();
  if (!anew) return model;
  bool started = false;
  const auto read = [&](const std::optional<std::string>& file, const std::string& prefix) {
    if (!file) return;
    said("weights: " + start_from(*model, *file, prefix, c.min_weights_matched).text(*file));
    started = true;
  };
  if (c.e2e_weights_path) {
    read(c.e2e_weights_path, "");
  } else {
    read(c.detectron2_weights_path, "cnn.feature.");
    read(c.bert_weights_path, "transformer.");
  }
  if (!started)
    said("INIT FROM SCRATCH: no weights path is set, all weights are random (seed " + std::to_string(c.seed) + ")");
  return model;
}

std::unique_ptr<data::Loader> make_loader(const Settings& settings, const TrainingData& data) {
  const config::Config& c = settings.config;
  return std::make_unique<data::Loader>(data.set, data::LoaderOptions{.batch_size = c.train_batch_size,
                                                                      .workers = loader_threads(c),
                                                                      .shuffle = true,
                                                                      .endless = true,
                                                                      .seed = static_cast<std::uint64_t>(c.seed)});
}

}  // namespace clipbert::cli
