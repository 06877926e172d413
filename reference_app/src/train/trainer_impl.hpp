/// The inside of Trainer, for the files that define it.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/clip_passes.hpp"
#include "train/fp8_products.hpp"
#include "train/precision.hpp"
#include "train/schedule.hpp"
#include "train/trainer.hpp"

namespace clipbert::train {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

struct Trainer::Impl {
  model::ClipBert& model;
  const TrainerSettings settings;
  const config::Config& config = settings.config;
  const std::int64_t accumulation = settings.config.gradient_accumulation_steps;
  data::BatchSource& source;
  log::EventSink& sink;
  TrainerHooks hooks;
  RateSchedule schedule;
  std::array<ParamGroup, 8> groups;
  std::vector<NamedTensor> trained;  ///< in the order of the groups
  std::unique_ptr<Precision> precision;
  std::unique_ptr<Fp8Products> fp8;  ///< where fp8_recipe asks for it
  std::unique_ptr<ClipPasses> passes;
  std::int64_t step = 0, skipped = 0, skips_in_a_row = 0;
  RunningLoss running;
  MemoryUse measured;
  bool measure = false;
  std::int64_t stats_every = 1;  ///< steps between two looks at the gradients by group

  Impl(model::ClipBert& m, const TrainerSettings& s, data::BatchSource& src, log::EventSink& snk, TrainerHooks h);

  std::optional<StepRecord> one_step();
  bool micro_batch(std::int64_t micro, StepRecord& record);
  void complete_gradients();
  void finish(StepRecord& record);
  void report_gradients(double scale);
  void report(const StepRecord& record);
  [[noreturn]] void diverge(const StepRecord& record) const;
  [[nodiscard]] std::map<std::string, at::Tensor> untrained() const;
};

}  // namespace clipbert::train
