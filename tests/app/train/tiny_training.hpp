/// The smallest model, batches and settings that every part of the trainer shows in.
#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "log/event_sink.hpp"
#include "model/clipbert.hpp"
#include "train/trainer.hpp"

namespace tiny_training {

using clipbert::data::Batch;
using clipbert::model::ClipBert;
using clipbert::train::StepRecord;
using clipbert::train::Trainer;
using clipbert::train::TrainerHooks;
using clipbert::train::TrainerSettings;

inline constexpr std::int64_t vocab = 40;

inline std::shared_ptr<ClipBert> tiny_model(double dropout = 0.0, const std::string& norm = "bn") {
  torch::manual_seed(11);
  clipbert::config::ModelConfig m;
  m.hidden_size = 16;
  m.num_hidden_layers = 1;
  m.num_attention_heads = 2;
  m.intermediate_size = 32;
  m.vocab_size = vocab;
  m.max_position_embeddings = 16;
  m.max_grid_row_position_embeddings = m.max_grid_col_position_embeddings = 8;
  m.hidden_dropout_prob = m.attention_probs_dropout_prob = dropout;
  m.initializer_range = 0.1;
  m.num_labels = 2;
  clipbert::config::CnnConfig c;
  c.depths = {1, 1};
  c.stem_width = 4;
  c.bottleneck_width = 4;
  c.out_width = 8;
  c.norm = norm;
  c.freeze_at = norm == "bn" ? 0 : 2;
  auto model = std::make_shared<ClipBert>(m, c);
  model->train();
  return model;
}

/// An endless stream of random batches; batch i depends on i only.
class RandomSource final : public clipbert::data::BatchSource {
 public:
  explicit RandomSource(std::int64_t videos = 2) : videos_(videos) {}
  std::optional<Batch> next() override {
    auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(1000 + at_++));
    Batch b;
    b.videos = videos_;
    b.clips = 2;
    b.frames_per_clip = 1;
    b.height = b.width = 32;
    b.texts = 2 * videos_;
    b.length = 5;
    const auto frames = at::randn({videos_, 2, 3, 32, 32}, generator);
    const auto ids = at::randint(1, vocab, {b.texts, b.length}, generator, at::kLong);
    b.frames.assign(frames.data_ptr<float>(), frames.data_ptr<float>() + frames.numel());
    b.ids.assign(ids.data_ptr<std::int64_t>(), ids.data_ptr<std::int64_t>() + ids.numel());
    b.mask.assign(b.ids.size(), 1);
    for (std::int64_t v = 0; v < videos_; ++v) {
      b.labels.insert(b.labels.end(), {1, 0});
      b.n_examples.push_back(2);
    }
    return b;
  }
  [[nodiscard]] std::int64_t position() const override { return at_; }
  void seek(std::int64_t position) override { at_ = position; }

 private:
  std::int64_t videos_, at_ = 0;
};

/// Batches from memory.
class ListSource final : public clipbert::data::BatchSource {
 public:
  explicit ListSource(std::vector<Batch> batches) : batches_(std::move(batches)) {}
  std::optional<Batch> next() override {
    if (at_ == batches_.size()) return std::nullopt;
    return batches_[at_++];
  }
  [[nodiscard]] std::int64_t position() const override { return static_cast<std::int64_t>(at_); }
  void seek(std::int64_t position) override { at_ = static_cast<std::size_t>(position); }

 private:
  std::vector<Batch> batches_;
  std::size_t at_ = 0;
};

struct Sink final : clipbert::log::EventSink {
  std::vector<clipbert::log::StepRecord> steps;
  std::string lines;
  std::map<std::string, std::vector<double>> scalars;
  std::map<std::string, std::vector<clipbert::log::Histogram>> histograms;
  void step(const clipbert::log::StepRecord& r) override { steps.push_back(r); }
  void info(std::string_view line) override { lines += std::string(line) + '\n'; }
  void scalar(std::string_view tag, std::int64_t, double value) override { scalars[std::string(tag)].push_back(value); }
  void histogram(std::string_view tag, std::int64_t, const clipbert::log::Histogram& h) override {
    histograms[std::string(tag)].push_back(h);
  }
};

inline TrainerSettings settings_for(const std::string& level, const std::string& type = "bf16") {
  TrainerSettings s;
  s.num_train_steps = 12;
  s.total_batch = 4;
  s.total_examples = 16;
  s.config.opt_level = level;
  s.config.amp_dtype = type;
  s.config.score_agg_func = "lse";
  s.config.learning_rate = s.config.cnn_learning_rate = 1e-3;
  s.config.grad_norm = 5;
  s.config.scale_init = 1024;
  return s;
}

using Weights = std::map<std::string, at::Tensor>;

/// The name of the first tensor that differs, or an empty text.
inline std::string first_difference(const Weights& a, const Weights& b) {
  for (const auto& [name, t] : a) {
    if (!torch::equal(t, b.at(name))) return name;
  }
  return a.size() == b.size() ? "" : "size";
}

}  // namespace tiny_training
