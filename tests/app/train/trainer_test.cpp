#include "train/trainer.hpp"

#include <doctest/doctest.h>
#include <torch/torch.h>

#include <amp_torch/state_dict.hpp>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "config/errors.hpp"
#include "log/event_sink.hpp"
#include "model/clipbert.hpp"

namespace {

using clipbert::data::Batch;
using clipbert::model::ClipBert;
using clipbert::train::StepRecord;
using clipbert::train::Trainer;
using clipbert::train::TrainerHooks;
using clipbert::train::TrainerSettings;

constexpr std::int64_t vocab = 40;

std::shared_ptr<ClipBert> tiny_model(double dropout = 0.0, const std::string& norm = "bn") {
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
  void step(const clipbert::log::StepRecord& r) override { steps.push_back(r); }
  void info(std::string_view line) override { lines += std::string(line) + '\n'; }
};

TrainerSettings settings_for(const std::string& level, const std::string& type = "bf16") {
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
std::string first_difference(const Weights& a, const Weights& b) {
  for (const auto& [name, t] : a) {
    if (!torch::equal(t, b.at(name))) return name;
  }
  return a.size() == b.size() ? "" : "size";
}

/// 6 + 6 steps, the second half in a new trainer over a new model, against 12.
void check_resume(const TrainerSettings& settings) {
  CAPTURE(settings.config.opt_level.value());
  CAPTURE(settings.config.amp_dtype.value());
  Sink sink;
  const auto whole = tiny_model(0.1), first = tiny_model(0.1), second = tiny_model(0.1);
  RandomSource a, b, c;
  std::vector<StepRecord> unbroken, resumed;
  torch::manual_seed(5);
  Trainer all(*whole, settings, a, sink);
  for (int i = 0; i < 12; ++i) unbroken.push_back(*all.step());

  torch::manual_seed(5);
  Trainer half(*first, settings, b, sink);
  for (int i = 0; i < 6; ++i) resumed.push_back(*half.step());
  const auto state = half.state();
  torch::manual_seed(77);  // what another process would start from
  Trainer rest(*second, settings, c, sink);
  rest.load(state);
  CHECK(rest.global_step() == 6);
  for (int i = 0; i < 6; ++i) resumed.push_back(*rest.step());
  for (std::size_t i = 0; i < unbroken.size(); ++i) {
    CAPTURE(i);
    CHECK(unbroken[i].loss == resumed[i].loss);
    CHECK(unbroken[i].loss_smoothed == resumed[i].loss_smoothed);
    CHECK(unbroken[i].lr == resumed[i].lr);
    CHECK(unbroken[i].loss_scale == resumed[i].loss_scale);
    CHECK(unbroken[i].skipped == resumed[i].skipped);
    CHECK(unbroken[i].grad_norm == resumed[i].grad_norm);
  }
  CHECK(first_difference(all.model_state(), rest.model_state()) == "");
  CHECK((all.state().tensors == rest.state().tensors));
  CHECK(all.state().meta == rest.state().meta);
}

}  // namespace

TEST_SUITE("train/trainer") {
  TEST_CASE("every level trains: records are complete and the loss is finite") {
    for (const auto& [level, type] : {std::pair{"O0", "bf16"},
                                      {"O1", "bf16"},
                                      {"O1", "fp16"},
                                      {"O2", "bf16"},
                                      {"O2", "fp16"},
                                      {"O3", "bf16"},
                                      {"O3", "fp16"}}) {
      CAPTURE(level);
      CAPTURE(type);
      const auto model = tiny_model();
      RandomSource source;
      Sink sink;
      auto settings = settings_for(level, type);
      settings.num_train_steps = 3;
      Trainer trainer(*model, settings, source, sink);
      const auto before = trainer.model_state();
      CHECK(trainer.run() == 3);
      REQUIRE(sink.steps.size() == 3);
      for (std::size_t i = 0; i < 3; ++i) {
        CHECK(sink.steps[i].step == static_cast<std::int64_t>(i) + 1);
        CHECK(std::isfinite(sink.steps[i].loss));
        CHECK_FALSE(sink.steps[i].skipped);
        CHECK(sink.steps[i].grad_norm > 0);
        CHECK(sink.steps[i].step_ms > 0);
        CHECK(sink.steps[i].mem_bytes > 0);
      }
      CHECK(sink.steps[1].epoch == 0.5);
      CHECK(first_difference(before, trainer.model_state()) != "");
      CHECK(trainer.global_step() == 3);
    }
  }
  TEST_CASE("B22 fp16 at O2 works on the CPU, dynamic scale and all") {
    const auto model = tiny_model(0.0, "frozen_bn");
    RandomSource source;
    Sink sink;
    Trainer trainer(*model, settings_for("O2", "fp16"), source, sink);
    const auto record = trainer.step();
    REQUIRE(record.has_value());
    CHECK(record->loss_scale == 1024);
    CHECK((model->type() == at::kHalf));
  }
  TEST_CASE("B19 pure fp16 with Adam stays finite: moments and eps are fp32") {
    for (const char* optim : {"adam", "adamw", "adamax"}) {
      CAPTURE(optim);
      const auto model = tiny_model();
      RandomSource source;
      Sink sink;
      auto settings = settings_for("O3", "fp16");
      settings.config.optim = optim;
      Trainer trainer(*model, settings, source, sink);
      for (int i = 0; i < 3; ++i) CHECK(std::isfinite(trainer.step()->loss));
      for (const auto& [name, t] : trainer.model_state()) {
        CAPTURE(name);
        CHECK(at::isfinite(t).all().item<bool>());
      }
    }
  }
  TEST_CASE("an overflow skips the step: no weight, moment or counter moves, the rates go on, the tensor is named") {
    for (const auto& [level, type] : {std::pair{"O2", "fp16"}, {"O2", "bf16"}, {"O0", "bf16"}}) {
      CAPTURE(level);
      const auto model = tiny_model();
      RandomSource source;
      Sink sink;
      const std::string name = "transformer.classifier.2.weight";
      TrainerHooks hooks;
      hooks.before_unscale = [&](std::int64_t step, ClipBert& m) {
        if (step != 2) return;
        m.named_tensors().at(name).mutable_grad().view(-1)[1] = std::numeric_limits<float>::infinity();
      };
      Trainer trainer(*model, settings_for(level, type), source, sink, hooks);
      CHECK_FALSE(trainer.step()->skipped);
      const auto before = trainer.model_state();
      const auto moments = [&](const clipbert::train::TrainingState& s) {
        amp::StateDict out;
        for (const auto& [key, t] : s.tensors) {
          if (key.find("optimizer") != std::string::npos && key.find("lr") == std::string::npos) out.emplace(key, t);
        }
        return out;
      };
      const auto skipped = trainer.step();
      CHECK(skipped->skipped);
      CHECK(skipped->bad_tensor == name);
      CHECK_FALSE(skipped->grad_norm.has_value());
      CHECK(skipped->step == 2);
      CHECK(skipped->loss_scale_after == (std::string(type) == "fp16" ? 512 : 1));
      // running statistics moved with the forward pass; what is trained did not
      const auto after = trainer.model_state();
      for (const auto& group : trainer.groups()) {
        for (const auto& p : group.names) CHECK(torch::equal(after.at(p), before.at(p)));
      }
      CHECK_FALSE(moments(trainer.state()).empty());
      CHECK_FALSE(trainer.step()->skipped);
      CHECK(trainer.skipped_steps() == 1);
      CHECK(trainer.global_step() == 3);
    }
  }
  TEST_CASE("B12 skipped first steps leave Adam's bias correction at its first step") {
    const auto run = [](int skips) {
      const auto model = tiny_model();
      RandomSource source;
      Sink sink;
      auto settings = settings_for("O2", "fp16");
      settings.config.decay = settings.config.cnn_lr_decay = "constant";
      Trainer* running = nullptr;
      TrainerHooks hooks;
      hooks.before_unscale = [&](std::int64_t step, ClipBert& m) {
        const auto one = static_cast<float>(running->loss_scale());  // unscaled: 1
        for (auto& p : m.parameters()) {
          if (p.requires_grad()) p.mutable_grad().fill_(step <= skips ? std::numeric_limits<float>::quiet_NaN() : one);
        }
      };
      Trainer trainer(*model, settings, source, sink, hooks);
      running = &trainer;
      for (int i = 0; i <= skips; ++i) trainer.step();
      CHECK(trainer.skipped_steps() == skips);
      return trainer.model_state().at("transformer.bert.pooler.dense.weight");
    };
    CHECK((run(0) - run(3)).abs().max().item<float>() <= 1e-6F);
  }
  TEST_CASE("B01 constant NaN ends the run after max_consecutive_skips and names the tensor, at every level") {
    for (const auto& [level, type] : {std::pair{"O0", "bf16"}, {"O2", "bf16"}, {"O2", "fp16"}}) {
      CAPTURE(level);
      const auto model = tiny_model();
      RandomSource source;
      Sink sink;
      auto settings = settings_for(level, type);
      settings.config.inject_nan_every = 1;
      settings.config.max_consecutive_skips = 4;
      Trainer trainer(*model, settings, source, sink);
      std::string text;
      try {
        trainer.run();
      } catch (const clipbert::diverged_error& e) {
        text = e.what();
      }
      CHECK(text.find("the gradient of " + trainer.groups()[2].names.front()) != std::string::npos);
      CHECK(text.find("4 steps in a row") != std::string::npos);
      CHECK(text.find("min_loss_scale") != std::string::npos);
      CHECK(sink.steps.size() == 4);
    }
  }
  TEST_CASE("a NaN now and then is skipped and training goes on") {
    const auto model = tiny_model();
    RandomSource source;
    Sink sink;
    auto settings = settings_for("O2", "fp16");
    settings.config.inject_nan_every = 3;
    settings.config.max_consecutive_skips = 2;
    Trainer trainer(*model, settings, source, sink);
    CHECK(trainer.run() == 12);
    CHECK(trainer.skipped_steps() == 4);
    CHECK(sink.lines.find("step skipped") != std::string::npos);
  }
  TEST_CASE("B28 averaged micro batches equal one large batch, a sum is as many times larger") {
    // One batch of 4 videos against 4 micro batches of 1, without batch norms, which see one batch at a time.
    RandomSource wide(4);
    const Batch all = *wide.next();
    std::vector<Batch> parts;
    for (std::int64_t v = 0; v < all.videos; ++v) {
      Batch b = all;
      b.videos = 1;
      b.texts = 2;
      b.n_examples = {2};
      const auto cut = [&](auto& to, const auto& from) {
        const auto each = from.size() / static_cast<std::size_t>(all.videos), at = each * static_cast<std::size_t>(v);
        to.assign(from.begin() + static_cast<std::ptrdiff_t>(at),
                  from.begin() + static_cast<std::ptrdiff_t>(at + each));
      };
      cut(b.frames, all.frames), cut(b.ids, all.ids), cut(b.mask, all.mask), cut(b.labels, all.labels);
      parts.push_back(std::move(b));
    }
    const auto one_step = [](std::vector<Batch> batches, const std::string& accumulate) {
      const auto model = tiny_model(0.0, "frozen_bn");
      auto settings = settings_for("O0");
      settings.config.gradient_accumulation_steps = static_cast<std::int64_t>(batches.size());
      settings.config.accumulate = accumulate;
      ListSource source(std::move(batches));
      Sink sink;
      Trainer trainer(*model, settings, source, sink);
      return *trainer.step();
    };
    const auto large = one_step({all}, "sum"), mean = one_step(parts, "mean"), sum = one_step(parts, "sum");
    CHECK(large.loss == doctest::Approx(mean.loss).epsilon(1e-6));
    CHECK(*large.grad_norm == doctest::Approx(*mean.grad_norm).epsilon(1e-5));
    CHECK(*sum.grad_norm == doctest::Approx(4 * *mean.grad_norm).epsilon(1e-5));
    CHECK(mean.micro_losses.size() == 4);
  }
  TEST_CASE("B30 the norm in the log does not depend on the loss scale") {
    const auto norm_at = [](double scale) {
      const auto model = tiny_model();
      RandomSource source;
      Sink sink;
      auto settings = settings_for("O2", "bf16");
      settings.config.loss_scale = clipbert::config::LossScale{.dynamic = false, .value = scale};
      Trainer trainer(*model, settings, source, sink);
      return *trainer.step()->grad_norm;
    };
    CHECK(norm_at(1) == doctest::Approx(norm_at(65536)).epsilon(1e-6));
  }
  TEST_CASE("a parameter that no batch reaches gets a zero gradient and decays") {
    const auto model = tiny_model();
    RandomSource source;
    Sink sink;
    auto settings = settings_for("O0");
    settings.config.weight_decay = 0.5;
    settings.config.decay = "constant";
    Trainer trainer(*model, settings, source, sink);
    const std::string name = "transformer.bert.visual_embeddings.position_embeddings.weight";
    const auto before = trainer.model_state().at(name);
    trainer.step();
    const auto after = trainer.model_state().at(name);
    CHECK((after - before * (1 - 0.5 * 1e-3)).abs().max().item<float>() <= 1e-7F);
  }
  TEST_CASE("a source that ends in the middle of an accumulation ends the run without a step") {
    RandomSource random;
    std::vector<Batch> three;
    for (int i = 0; i < 3; ++i) three.push_back(*random.next());
    ListSource source(three);
    const auto model = tiny_model();
    Sink sink;
    auto settings = settings_for("O2");
    settings.config.gradient_accumulation_steps = 2;
    Trainer trainer(*model, settings, source, sink);
    CHECK(trainer.run() == 1);
  }
  TEST_CASE("should_stop ends run() after the step that it follows") {
    const auto model = tiny_model();
    RandomSource source;
    Sink sink;
    Trainer trainer(*model, settings_for("O0"), source, sink, {.should_stop = [&] { return sink.steps.size() == 2; }});
    CHECK(trainer.run() == 2);
  }
  TEST_CASE("memory by kind: O2 has masters and half the weights, O0 none") {
    const auto use_at = [](const char* level) {
      const auto model = tiny_model();
      RandomSource source;
      Sink sink;
      Trainer trainer(*model, settings_for(level), source, sink);
      trainer.measure_next_step();
      trainer.step();
      return trainer.memory();
    };
    const auto o0 = use_at("O0"), o2 = use_at("O2");
    CHECK(o0.masters == 0);
    CHECK(o2.masters > o0.weights / 2);
    CHECK(o2.weights < 0.6 * static_cast<double>(o0.weights));
    CHECK(o0.optimizer == o2.optimizer);
    CHECK(o0.gradients > o2.gradients);
    CHECK(o2.gradients > 0);
    CHECK(o0.activations > o2.activations);
    CHECK(o2.activations > 0);
    CHECK(o2.peak_tensors >= o2.activations);
    CHECK(o2.peak_rss > 0);
  }
  TEST_CASE("what the trainer does not serve is refused in words") {
    const auto refused = [](auto change) {
      const auto model = tiny_model();
      RandomSource source;
      Sink sink;
      auto settings = settings_for("O2");
      change(settings.config);
      CHECK_THROWS_AS(Trainer(*model, settings, source, sink), clipbert::usage_error);
    };
    refused([](auto& c) { c.opt_level = "O7"; });
    refused([](auto& c) { c.optim = "lion"; });
    refused([](auto& c) { c.master_weights = "fp4"; });
    refused([](auto& c) { c.optimizer_state = "int8"; });
    refused([](auto& c) { c.accumulate = "median"; });
    refused([](auto& c) {
      c.loss_scale = clipbert::config::LossScale{.dynamic = true};
      c.scaler = "other";
    });
  }
}

TEST_SUITE("train/resume") {
  TEST_CASE("B48 resumed training equals unbroken training bit for bit, with dropout") {
    for (const auto& [level, type] :
         {std::pair{"O0", "bf16"}, {"O1", "bf16"}, {"O2", "bf16"}, {"O2", "fp16"}, {"O3", "bf16"}}) {
      check_resume(settings_for(level, type));
    }
  }
  TEST_CASE("B48 so does training with other forms of masters and moments") {
    for (const auto& [masters, moments] : {std::pair{"remainder", "bf16"}, {"kahan", "fp8"}, {"stochastic", "fp16"}}) {
      CAPTURE(masters);
      auto settings = settings_for("O2", "bf16");
      settings.config.master_weights = masters;
      settings.config.optimizer_state = moments;
      check_resume(settings);
    }
  }
  TEST_CASE("B48 so does training with accumulation, skipped steps and a growing scale") {
    auto settings = settings_for("O2", "fp16");
    settings.config.gradient_accumulation_steps = 2;
    settings.config.inject_nan_every = 4;
    settings.config.scale_window = 2;
    check_resume(settings);
  }
  TEST_CASE("a state of another model is refused and names what is missing") {
    RandomSource source;
    Sink sink;
    const auto one = tiny_model(), other = tiny_model(0.0, "frozen_bn");
    Trainer a(*one, settings_for("O2"), source, sink);
    Trainer b(*other, settings_for("O2"), source, sink);
    a.step();
    CHECK_THROWS_AS(b.load(a.state()), clipbert::content_error);
  }
}
