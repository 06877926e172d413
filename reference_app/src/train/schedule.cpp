#include "train/schedule.hpp"

#include <algorithm>
#include <cmath>

#include "config/errors.hpp"
#include "config/table.hpp"

namespace clipbert::train {

double scheduled_rate(std::int64_t step, std::string_view kind, double base, std::int64_t total, double warmup_ratio,
                      std::span<const std::int64_t> milestones, std::int64_t epoch) {
  const auto warm = static_cast<std::int64_t>(warmup_ratio * static_cast<double>(total));
  const auto s = static_cast<double>(step), w = static_cast<double>(warm), t = static_cast<double>(total);
  double factor = 1.0;
  if (kind == "linear") {
    factor = step < warm ? s / w : total > warm ? std::max(0.0, (t - s) / (t - w)) : 0.0;
  } else if (kind == "invsqrt") {
    factor = step <= warm && warm > 0 ? s / w : std::pow(w, 0.5) * std::pow(s, -0.5);
  } else if (kind == "multi_step") {
    std::vector<std::int64_t> sorted(milestones.begin(), milestones.end());
    std::ranges::sort(sorted);
    const auto next = std::ranges::upper_bound(sorted, epoch);
    // behind the last milestone the original halves once more
    const auto halvings = next == sorted.end() ? static_cast<long>(sorted.size()) + 1 : next - sorted.begin();
    factor = std::pow(0.5, static_cast<double>(halvings));
  } else if (kind != "constant") {
    throw usage_error("schedule " + std::string(kind) + " is not known; take linear, invsqrt, constant or multi_step");
  }
  const double rate = base * factor;
  return rate > 0 ? rate : 1e-8;
}

namespace {

/// A product that fits all later arithmetic with it.
std::int64_t product(std::initializer_list<std::int64_t> factors, const char* what) {
  constexpr std::int64_t most = std::int64_t{1} << 40;
  std::int64_t out = 1;
  for (const auto factor : factors) {
    if (__builtin_mul_overflow(out, factor, &out) || out > most)
      throw usage_error(std::string("there are too many ") + what + "; lower train_batch_size, " +
                        "gradient_accumulation_steps or max_n_example_per_group");
  }
  return out;
}

}  // namespace

RunPlan run_plan(const RunSize& size) {
  RunPlan plan;
  plan.total_n_examples = product({size.n_groups, size.per_group}, "examples of the training set");
  plan.total_train_batch_size =
      product({size.n_procs, size.batch, size.accumulation, size.per_group}, "examples of a step");
  if (plan.total_n_examples <= 0 || plan.total_train_batch_size <= 0)
    throw content_error("there is nothing to train on: the training set has no example");
  const double steps_of_epochs = std::ceil(size.epochs * static_cast<double>(plan.total_n_examples) /
                                           static_cast<double>(plan.total_train_batch_size));
  if (size.max_steps <= 0 && !(steps_of_epochs <= static_cast<double>(config::largest_count)))
    throw usage_error("num_train_epochs makes more than " + std::to_string(config::largest_count) +
                      " steps; lower it, or set max_train_steps");
  plan.num_train_steps = size.max_steps > 0 ? size.max_steps : static_cast<std::int64_t>(steps_of_epochs);
  const auto steps = static_cast<double>(plan.num_train_steps);
  plan.valid_steps = static_cast<std::int64_t>(std::ceil(steps / static_cast<double>(size.num_valid) /
                                                         static_cast<double>(size.min_valid_steps))) *
                     size.min_valid_steps;
  plan.actual_num_valid = plan.num_train_steps / plan.valid_steps + 1;
  return plan;
}

RunPlan run_plan(const config::Config& config, std::int64_t n_groups, std::int64_t n_procs) {
  return run_plan({.n_groups = n_groups,
                   .per_group = config.max_n_example_per_group,
                   .n_procs = n_procs,
                   .batch = config.train_batch_size,
                   .accumulation = config.gradient_accumulation_steps,
                   .epochs = config.num_train_epochs,
                   .num_valid = config.num_valid,
                   .min_valid_steps = config.min_valid_steps,
                   .max_steps = config.max_train_steps});
}

RateSchedule::RateSchedule(const config::Config& config, std::int64_t num_train_steps, std::int64_t total_batch,
                           std::int64_t total_examples)
    : transformer_{config.decay, config.learning_rate, config.transformer_lr_mul, config.step_decay_epochs},
      cnn_{config.cnn_lr_decay, config.cnn_learning_rate, config.cnn_lr_mul, config.cnn_step_decay_epochs},
      warmup_ratio_(config.warmup_ratio),
      num_train_steps_(num_train_steps),
      total_batch_(total_batch),
      total_examples_(total_examples) {}

std::int64_t RateSchedule::epoch(std::int64_t step) const {
  return static_cast<std::int64_t>(static_cast<double>(total_batch_) * static_cast<double>(step) /
                                   static_cast<double>(total_examples_));
}

double RateSchedule::rate(const Side& side, std::int64_t step) const {
  return scheduled_rate(step, side.kind, side.base, num_train_steps_, warmup_ratio_, side.milestones, epoch(step));
}

double RateSchedule::transformer_rate(std::int64_t step) const { return rate(transformer_, step); }
double RateSchedule::cnn_rate(std::int64_t step) const { return rate(cnn_, step); }

std::array<double, 8> RateSchedule::rates(std::int64_t step) const {
  const double transformer = transformer_rate(step), cnn = cnn_rate(step);
  const double top = transformer_.factor * transformer, cnn_top = cnn_.factor * cnn;
  return {top, top, transformer, transformer, cnn_top, cnn_top, cnn, cnn};
}

}  // namespace clipbert::train
