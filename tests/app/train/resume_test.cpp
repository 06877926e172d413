// A run that goes on from a state equals one that was never stopped.
#include <doctest/doctest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "app/train/tiny_training.hpp"
#include "config/errors.hpp"

using namespace tiny_training;  // NOLINT: a test of it

namespace {

/// 10 + 10 steps, the second half in a new trainer over a new model, against 20.
void check_resume(TrainerSettings settings) {
  settings.num_train_steps = 20;
  CAPTURE(settings.config.opt_level.value());
  CAPTURE(settings.config.amp_dtype.value());
  Sink sink;
  const auto whole = tiny_model(0.1), first = tiny_model(0.1), second = tiny_model(0.1);
  RandomSource a, b, c;
  std::vector<StepRecord> unbroken, resumed;
  torch::manual_seed(5);
  Trainer all(*whole, settings, a, sink);
  for (int i = 0; i < 20; ++i) unbroken.push_back(*all.step());

  torch::manual_seed(5);
  Trainer half(*first, settings, b, sink);
  for (int i = 0; i < 10; ++i) resumed.push_back(*half.step());
  const auto state = half.state();
  torch::manual_seed(77);  // what another process would start from
  Trainer rest(*second, settings, c, sink);
  rest.load(state);
  CHECK(rest.global_step() == 10);
  for (int i = 0; i < 10; ++i) resumed.push_back(*rest.step());
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

TEST_SUITE("train/resume") {
  TEST_CASE("B48 resumed training equals unbroken training bit for bit, with dropout, with and without accumulation") {
    for (const auto& [level, type] :
         {std::pair{"O0", "bf16"}, {"O1", "bf16"}, {"O2", "bf16"}, {"O2", "fp16"}, {"O3", "bf16"}}) {
      auto settings = settings_for(level, type);
      settings.config.gradient_accumulation_steps = std::string(level) == "O2" ? 2 : 1;
      check_resume(settings);
    }
  }
  TEST_CASE("B48 so does training of one clip at a time, with every optimizer and every rule of the loss scale") {
    for (const auto& [optim, scaler] : {std::pair{"adam", "torch"}, {"adamax", "hysteresis"}}) {
      CAPTURE(optim);
      auto settings = settings_for("O2", "fp16");
      settings.config.optim = optim;
      settings.config.scaler = scaler;
      settings.config.hysteresis = 2;
      settings.config.scale_window = 3;
      settings.config.inject_nan_every = 4;
      settings.config.clip_recompute = true;
      check_resume(settings);
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
  TEST_CASE("B48 so does training with fp8 operands, whose scales and histories are part of the state") {
    for (const char* recipe : {"delayed"}) {
      CAPTURE(recipe);
      auto settings = settings_for("O2", "bf16");
      settings.config.fp8_recipe = recipe;
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
