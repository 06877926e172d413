#include "cli/run_files.hpp"

#include <torch/torch.h>

#include <cmath>

#include "cli/table.hpp"
#include "cli/validation.hpp"
#include "train/trainer.hpp"

namespace clipbert::cli {

RunFiles::RunFiles(const config::Config& config, log::EventSink& sink)
    : config_(config),
      sink_(sink),
      weights_(*config.output_dir, config.keep_checkpoints),
      states_(*config.output_dir) {}

void RunFiles::go_on(const train::TrainingState& state) {
  state_step_ = state.step;
  validated_ = state.meta.value("validated", state.step);
  const auto best = state.meta.find("best");
  if (best == state.meta.end() || best->value("metric", config_.best_metric) != config_.best_metric) return;
  const std::int64_t step = best->at("step");
  if (!std::filesystem::exists(weights_.file_of(step))) return;  // of a run in another folder
  best_ = best->at("value").get<double>();
  best_step_ = step;
}

bool RunFiles::sound(const train::ModelState& weights, std::int64_t step) {
  for (const auto& [name, t] : weights) {
    if (!t.is_floating_point() || at::isfinite(t).all().item<bool>()) continue;
    sink_.warn("step " + std::to_string(step) + " is not saved: " + name +
               " is not finite; what was saved before stays");
    return false;
  }
  return true;
}

void RunFiles::save_weights(const train::Trainer& trainer, std::optional<double> value) {
  const std::int64_t step = trainer.global_step();
  validated_ = step;
  const auto weights = trainer.model_state();
  if (!sound(weights, step)) return;
  weights_.save(step, weights);
  if (!value || !std::isfinite(*value) || (best_ && !better(config_.best_metric, *value, *best_))) return;
  best_ = value;
  best_step_ = step;
  weights_.mark_best(step);
}

bool RunFiles::save_state(const train::Trainer& trainer) {
  const std::int64_t step = trainer.global_step();
  if (state_step_ == step) return true;
  if (!sound(trainer.model_state(), step)) return false;
  train::TrainingState state = trainer.state();
  state.meta["validated"] = validated_;
  if (best_) state.meta["best"] = {{"metric", config_.best_metric}, {"value", *best_}, {"step", best_step_}};
  states_.save(state);
  state_step_ = step;
  return true;
}

std::string RunFiles::best_line() const {
  if (!best_) return {};
  return "best " + config_.best_metric + " " + number(std::round(*best_ * 1e4) / 1e4) + " at step " +
         std::to_string(best_step_) + ": " + weights_.file_of(best_step_).string();
}

}  // namespace clipbert::cli
