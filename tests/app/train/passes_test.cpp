// One clip at a time against all at once; what a step tells of its gradients and of its memory.
#include <doctest/doctest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "app/train/tiny_training.hpp"
#include "train/clip_passes.hpp"
#include "train/memory_plan.hpp"

using namespace tiny_training;  // NOLINT: a test of it

namespace {

struct Steps {
  std::vector<StepRecord> records;
  Weights weights;
  clipbert::train::MemoryUse memory;
};

Steps steps_of(TrainerSettings settings, bool recompute, const std::string& norm, double dropout = 0.0) {
  settings.config.clip_recompute = recompute;
  const auto model = tiny_model(dropout, norm);
  RandomSource source;
  Sink sink;
  Trainer trainer(*model, settings, source, sink);
  Steps out;
  torch::manual_seed(3);
  for (int i = 0; i < 3; ++i) {
    if (i == 2) trainer.measure_next_step();
    out.records.push_back(*trainer.step());
  }
  out.weights = trainer.model_state();
  out.memory = trainer.memory();
  return out;
}

double largest_difference(const Weights& a, const Weights& b) {
  double largest = 0;
  for (const auto& [name, t] : a)
    largest = std::max(largest, (t.to(at::kDouble) - b.at(name).to(at::kDouble)).abs().max().item<double>());
  return largest;
}

/// The scales that steps were made with, where the gradients of those in `bad` are not finite.
std::vector<double> scales(const std::string& scaler, std::int64_t hysteresis, const std::vector<std::int64_t>& bad,
                           double most = 0x1p24, double least = 0x1p-24) {
  const auto model = tiny_model();
  RandomSource source;
  Sink sink;
  auto settings = settings_for("O2", "fp16");
  settings.config.scaler = scaler;
  settings.config.hysteresis = hysteresis;
  settings.config.scale_window = 2;
  settings.config.scale_init = 1024;
  settings.config.max_loss_scale = most;
  settings.config.min_loss_scale = least;
  TrainerHooks hooks;
  hooks.before_unscale = [&](std::int64_t step, ClipBert& m) {
    if (std::find(bad.begin(), bad.end(), step) == bad.end()) return;
    m.named_tensors().at("transformer.classifier.2.bias").mutable_grad().view(-1)[0] =
        std::numeric_limits<float>::infinity();
  };
  Trainer trainer(*model, settings, source, sink, hooks);
  std::vector<double> out;
  for (int i = 0; i < 6; ++i) out.push_back(trainer.step()->loss_scale);
  return out;
}

}  // namespace

TEST_SUITE("train/passes") {
  TEST_CASE("one clip at a time gives the losses, norms, weights and running statistics of all at once") {
    for (const char* norm : {"frozen_bn", "bn"}) {
      CAPTURE(norm);
      const auto all = steps_of(settings_for("O0"), false, norm), one = steps_of(settings_for("O0"), true, norm);
      for (std::size_t i = 0; i < 3; ++i) {
        CHECK(one.records[i].loss == doctest::Approx(all.records[i].loss).epsilon(1e-5));
        CHECK(*one.records[i].grad_norm == doctest::Approx(*all.records[i].grad_norm).epsilon(1e-4));
      }
      // Adam turns a gradient that is rounding noise (a key's bias) into a step of the rate's size, 3 in all
      CHECK(largest_difference(all.weights, one.weights) <= 3 * 1e-3);
      CHECK(one.weights.at("cnn.grid_encoder.0.weight")
                .allclose(all.weights.at("cnn.grid_encoder.0.weight"), 1e-3, 1e-5));
      for (const auto& [name, t] : all.weights) {
        if (name.find("running_") == std::string::npos) continue;
        CHECK((one.weights.at(name) - t).abs().max().item<double>() <= 1e-4);
      }
    }
  }
  TEST_CASE("one clip at a time keeps one clip's graph, at every level") {
    for (const auto& [level, type] : {std::pair{"O0", "bf16"}, {"O1", "bf16"}, {"O2", "fp16"}}) {
      CAPTURE(level);
      const auto all = steps_of(settings_for(level, type), false, "bn");
      const auto one = steps_of(settings_for(level, type), true, "bn");
      CHECK(one.memory.activations < 0.7 * static_cast<double>(all.memory.activations));
      CHECK(one.memory.activations > 0);
      CHECK(one.records[2].loss == doctest::Approx(all.records[2].loss).epsilon(3e-2));
    }
  }
  TEST_CASE("one clip at a time repeats the dropout of its first pass") {
    // with other masks in the second pass the gradient would not be that of the loss: check it by a small step down it
    torch::manual_seed(9);
    const auto model = tiny_model(0.3, "frozen_bn");
    RandomSource source;
    auto batch = *source.next();
    const clipbert::train::BatchTensors in(batch);
    clipbert::train::ClipPasses passes(*model, true, [] { return amp_torch::OpCast(); });
    const auto loss_at = [&] {
      torch::manual_seed(21);
      return passes.forward(batch, in).square().sum();
    };
    auto loss = loss_at();
    passes.backward(loss);
    const auto name = std::string("transformer.bert.pooler.dense.weight");
    const at::Tensor weight = model->named_tensors().at(name), gradient = weight.grad().clone();
    const double before = loss.item<double>(), length = gradient.square().sum().item<double>(), h = 1e-3;
    {
      const torch::NoGradGuard no_grad;
      weight.sub_(gradient, h);
    }
    const double fall = (before - loss_at().item<double>()) / h;
    CHECK(fall == doctest::Approx(length).epsilon(0.05));
  }
}

TEST_SUITE("train/fp8") {
  TEST_CASE("every fp8 recipe trains at O1 and O2: close to bf16, not equal to it, and gone from scores") {
    for (const char* level : {"O1", "O2"}) {
      const auto plain = steps_of(settings_for(level), false, "frozen_bn");
      for (const char* recipe : {"delayed", "current", "block", "mxfp8"}) {
        CAPTURE(level);
        CAPTURE(recipe);
        auto settings = settings_for(level);
        settings.config.fp8_recipe = recipe;
        const auto low = steps_of(settings, false, "frozen_bn");
        CHECK(low.records[0].loss != plain.records[0].loss);
        CHECK(low.records[0].loss == doctest::Approx(plain.records[0].loss).epsilon(0.1));
        CHECK(*low.records[0].grad_norm == doctest::Approx(*plain.records[0].grad_norm).epsilon(0.3));
        CHECK(std::isfinite(low.records[2].loss));
      }
    }
    auto settings = settings_for("O2");
    settings.config.fp8_recipe = "current";
    const auto model = tiny_model(0.0, "frozen_bn");
    RandomSource source;
    Sink sink;
    auto batch = *source.next();
    const clipbert::train::BatchTensors in(batch);
    const auto logits = [&] {
      const torch::NoGradGuard no_grad;
      return model->forward_clips(in.frames, batch.clips, in.ids, in.mask, batch.n_examples);
    };
    Trainer trainer(*model, settings, source, sink);
    const auto training = logits();
    model->eval();
    const auto scoring = logits();
    CHECK_FALSE(torch::equal(training, scoring));
    CHECK(training.allclose(scoring, 0.2, 0.1));
  }
  TEST_CASE("one clip at a time quantises as all clips at once do, where scales do not depend on the batch") {
    auto settings = settings_for("O2");
    settings.config.fp8_recipe = "mxfp8";
    const auto all = steps_of(settings, false, "frozen_bn"), one = steps_of(settings, true, "frozen_bn");
    CHECK(one.records[0].loss == doctest::Approx(all.records[0].loss).epsilon(1e-2));
  }
}

TEST_SUITE("train/gradients") {
  TEST_CASE(
      "mean, spread and underflow of each group are reported, unscaled, and histograms where they are asked for") {
    for (const double scale : {1.0, 4096.0}) {
      const auto model = tiny_model(0.0, "frozen_bn");
      RandomSource source;
      Sink sink;
      auto settings = settings_for("O2", "fp16");
      settings.config.loss_scale = clipbert::config::LossScale{.dynamic = false, .value = scale};
      settings.config.profile = scale != 1.0;
      TrainerHooks hooks;
      hooks.before_unscale = [&](std::int64_t, ClipBert& m) {
        for (auto& p : m.named_parameters())
          if (p.value().requires_grad()) p.value().mutable_grad().fill_(0.25 * scale);
        m.named_tensors().at("transformer.bert.pooler.dense.weight").mutable_grad().fill_(0);
      };
      Trainer trainer(*model, settings, source, sink, hooks);
      trainer.step();
      CHECK(sink.scalars.at("amp/grad_mean/cnn").at(0) == doctest::Approx(0.25));
      CHECK(sink.scalars.at("amp/grad_std/cnn").at(0) == doctest::Approx(0).epsilon(1e-6));
      CHECK(sink.scalars.at("amp/grad_underflow/cnn").at(0) == 0);
      double others = 0;
      for (const auto& name : trainer.groups()[2].names)
        others += static_cast<double>(model->named_tensors().at(name).numel());
      CHECK(sink.scalars.at("amp/grad_underflow/transformer").at(0) == doctest::Approx(16 * 16 / others));
      CHECK(sink.scalars.count("amp/grad_mean/transformer_top") == 0);  // an empty group
      CHECK(sink.histograms.count("amp/grad_log2/cnn") == (settings.config.profile ? 1U : 0U));
      CHECK(sink.scalars.count("perf/forward_ms") == (settings.config.profile ? 1U : 0U));
      if (!settings.config.profile) continue;
      const auto& h = sink.histograms.at("amp/grad_log2/cnn").at(0);
      for (std::size_t i = 0; i < h.limits.size(); ++i)  // 0.25 is 2^-2: in the interval from -2 to -1
        CHECK((h.counts[i] > 0) == (h.limits[i] == -1));
    }
  }
  TEST_CASE("a step that is skipped reports no figures of its gradients") {
    const auto model = tiny_model();
    RandomSource source;
    Sink sink;
    auto settings = settings_for("O2", "bf16");
    settings.config.inject_nan_every = 1;
    Trainer trainer(*model, settings, source, sink);
    trainer.step();
    CHECK(sink.scalars.count("amp/grad_mean/transformer") == 0);
    CHECK(sink.scalars.count("amp/grad_mean/cnn") == 1);
  }
}

TEST_SUITE("train/scale") {
  TEST_CASE("B10 each rule of the loss scale grows and backs off as its own, hysteresis forgives the first overflow") {
    CHECK(scales("apex", 1, {3}) == std::vector<double>{1024, 1024, 2048, 1024, 1024, 2048});
    CHECK(scales("torch", 1, {3}) == std::vector<double>{1024, 1024, 2048, 1024, 1024, 2048});
    CHECK(scales("hysteresis", 2, {3}) == std::vector<double>{1024, 1024, 2048, 2048, 2048, 4096});
    CHECK(scales("hysteresis", 2, {3, 4}) == std::vector<double>{1024, 1024, 2048, 2048, 1024, 1024});
    CHECK(scales("hysteresis", 1, {3}) == scales("torch", 1, {3}));
  }
  TEST_CASE("B03 min_loss_scale and max_loss_scale hold for every rule") {
    for (const char* scaler : {"apex", "torch", "hysteresis"}) {
      CAPTURE(scaler);
      CHECK(scales(scaler, 1, {}, 2048).back() == 2048);
      CHECK(scales(scaler, 1, {1, 2, 3, 4, 5}, 2048, 512).back() == 512);
    }
  }
}

TEST_SUITE("train/memory_plan") {
  TEST_CASE("the planned memory is what a step takes: exact but for activations") {
    for (const auto& [level, masters, moments] : {std::tuple{"O0", "fp32", "fp32"},
                                                  {"O1", "fp32", "fp32"},
                                                  {"O2", "fp32", "fp32"},
                                                  {"O2", "kahan", "fp8"},
                                                  {"O2", "remainder", "bf16"},
                                                  {"O3", "none", "fp32"}}) {
      CAPTURE(level);
      CAPTURE(masters);
      auto settings = settings_for(level);
      if (std::string(level) == "O2") settings.config.master_weights = masters;
      settings.config.optimizer_state = moments;
      const auto model = tiny_model(0.0, "frozen_bn");
      RandomSource source;
      Sink sink;
      Trainer trainer(*model, settings, source, sink);
      const auto planned = clipbert::train::plan_memory(
          *model, trainer, settings.config,
          {.videos = 2, .texts = 4, .clips = 2, .frames_per_clip = 1, .size = 32, .length = 5});
      trainer.measure_next_step();
      trainer.step();
      const auto real = trainer.memory();
      CHECK(planned.weights == real.weights);
      CHECK(planned.masters == real.masters);
      CHECK(planned.optimizer == real.optimizer);
      CHECK(planned.gradients == real.gradients);
      CHECK(static_cast<double>(planned.activations) ==
            doctest::Approx(static_cast<double>(real.activations)).epsilon(0.25));
    }
  }
}
