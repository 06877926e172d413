#include <doctest/doctest.h>
#include <torch/torch.h>

#include <amp_torch/state_dict.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "app/train/tiny_training.hpp"
#include "config/errors.hpp"

using namespace tiny_training;  // NOLINT: a test of it

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
    refused([](auto& c) { c.fp8_recipe = "fp4"; });
    refused([](auto& c) {
      c.fp8_recipe = "delayed";
      c.amp_dtype = "fp16";
    });
    refused([](auto& c) {
      c.loss_scale = clipbert::config::LossScale{.dynamic = true};
      c.scaler = "other";
    });
  }
}
