/// What a training run keeps on the disk: weights after each validation, the best of them, states to go on from.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "config/config.hpp"
#include "log/event_sink.hpp"
#include "train/checkpoint.hpp"
#include "train/state_files.hpp"

namespace clipbert::train {
class Trainer;
}

namespace clipbert::cli {

/// A run that diverges must not write over its last sound state, so weights that are not finite are never saved.
class RunFiles {
 public:
  /// `config` and `sink` must outlive it.
  RunFiles(const config::Config& config, log::EventSink& sink);

  /// Takes over what a state says of the run's validations.
  void go_on(const train::TrainingState& state);

  /// Saves the weights of a validated step, and points to them if `value` of best_metric is the best so far.
  void save_weights(const train::Trainer& trainer, std::optional<double> value);
  /// Saves a state of the trainer's step, unless one of it is saved already. False if the weights are not sound.
  bool save_state(const train::Trainer& trainer);
  /// The next save_state() writes in any case: more is known of this step.
  void renew_state() { state_step_ = 0; }

  [[nodiscard]] std::int64_t validated() const { return validated_; }
  /// The step of the newest state; 0: none.
  [[nodiscard]] std::int64_t state_step() const { return state_step_; }
  /// A line about the best weights; empty if there are none.
  [[nodiscard]] std::string best_line() const;

 private:
  [[nodiscard]] bool sound(const train::ModelState& weights, std::int64_t step);

  const config::Config& config_;
  log::EventSink& sink_;
  train::ModelFiles weights_;
  train::StateFiles states_;
  std::optional<double> best_;
  std::int64_t best_step_ = 0, state_step_ = 0, validated_ = 0;
};

}  // namespace clipbert::cli
