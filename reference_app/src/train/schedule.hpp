/// Learning rates, step counts and the smoothed loss of a run, as ClipBERT has them.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"

namespace clipbert::train {

/// The rate at optimizer step `step`, from 1.
/// kind      linear, invsqrt: rise over int(warmup_ratio * total) steps, then fall; constant; multi_step: halved at
/// each
///           milestone, once more behind the last
/// epoch     counts for multi_step only
/// returns   never 0: 1e-8 instead, as in the original
/// throws    usage_error for an unknown kind
[[nodiscard]] double scheduled_rate(std::int64_t step, std::string_view kind, double base, std::int64_t total,
                                    double warmup_ratio, std::span<const std::int64_t> milestones = {},
                                    std::int64_t epoch = -1);

/// How many examples and steps a run has.
struct RunPlan {
  std::int64_t total_n_examples = 0;
  std::int64_t total_train_batch_size = 0;  ///< examples of one optimizer step over all processes
  std::int64_t num_train_steps = 0;
  std::int64_t valid_steps = 0;  ///< steps between two validations
  std::int64_t actual_num_valid = 0;
};

/// What a plan is made from.
struct RunSize {
  std::int64_t n_groups = 0;   ///< length of the data set: groups of captions, not captions
  std::int64_t per_group = 1;  ///< max_n_example_per_group
  std::int64_t n_procs = 1;
  std::int64_t batch = 1;         ///< train_batch_size
  std::int64_t accumulation = 1;  ///< gradient_accumulation_steps
  double epochs = 1;
  std::int64_t num_valid = 1, min_valid_steps = 1;
  std::int64_t max_steps = 0;  ///< instead of epochs; 0: off
};

/// throws  content_error if there is no example, usage_error if the counts multiply to more than a run can have
[[nodiscard]] RunPlan run_plan(const RunSize& size);
[[nodiscard]] RunPlan run_plan(const config::Config& config, std::int64_t n_groups, std::int64_t n_procs = 1);

/// The rates of the eight groups of param_groups.hpp at a step.
class RateSchedule {
 public:
  RateSchedule(const config::Config& config, std::int64_t num_train_steps, std::int64_t total_batch,
               std::int64_t total_examples);
  RateSchedule(const config::Config& config, const RunPlan& plan)
      : RateSchedule(config, plan.num_train_steps, plan.total_train_batch_size, plan.total_n_examples) {}

  /// step  from 1
  [[nodiscard]] std::array<double, 8> rates(std::int64_t step) const;
  /// The epoch that multi_step goes by: int(examples seen / all examples).
  [[nodiscard]] std::int64_t epoch(std::int64_t step) const;
  [[nodiscard]] double transformer_rate(std::int64_t step) const;
  [[nodiscard]] double cnn_rate(std::int64_t step) const;

 private:
  struct Side {
    std::string kind;
    double base = 0;
    double factor = 1;  ///< of the groups whose names match the prefix
    std::vector<std::int64_t> milestones;
  };
  [[nodiscard]] double rate(const Side& side, std::int64_t step) const;

  Side transformer_, cnn_;
  double warmup_ratio_;
  std::int64_t num_train_steps_, total_batch_, total_examples_;
};

/// Exponentially smoothed loss; the first value is taken as it is.
class RunningLoss {
 public:
  explicit RunningLoss(double smooth = 0.99) : smooth_(smooth) {}
  void add(double value) {
    value_ = started_ ? value_ * smooth_ + value * (1 - smooth_) : value;
    started_ = true;
  }
  [[nodiscard]] double value() const { return value_; }
  [[nodiscard]] bool started() const { return started_; }
  /// Continues from a saved value.
  void restore(double value, bool started) {
    value_ = value;
    started_ = started;
  }

 private:
  double smooth_;
  double value_ = 0;
  bool started_ = false;
};

}  // namespace clipbert::train
