#include "train/trainer.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <amp_torch/state_dict.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "config/errors.hpp"
#include "log/event_sink.hpp"
#include "model/clipbert.hpp"
#include "model/loss.hpp"
#include "train/grad_stats.hpp"
#include "train/trainer_impl.hpp"

namespace clipbert::train {
namespace {

using Clock = std::chrono::steady_clock;
double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

}  // namespace

Trainer::Impl::Impl(model::ClipBert& m, const TrainerSettings& s, data::BatchSource& src, log::EventSink& snk,
                    TrainerHooks h)
    : model(m),
      settings(s),
      source(src),
      sink(snk),
      hooks(std::move(h)),
      schedule(s.config, s.num_train_steps, s.total_batch, s.total_examples) {
  if (accumulation < 1) throw usage_error("gradient_accumulation_steps must be at least 1");
  if (config.accumulate != "sum" && config.accumulate != "mean") {
    throw usage_error("accumulate \"" + config.accumulate + "\" is not known; use sum or mean");
  }
  std::vector<NamedParam> names;
  for (const auto& p : model.named_parameters()) names.push_back({p.key(), p.value().requires_grad()});
  groups = eight_groups(names, config);
  precision = make_precision(model, settings, groups, [this](std::string_view line) { sink.info(line); });
  if (config.fp8_recipe != "none") fp8 = std::make_unique<Fp8Products>(model, config.fp8_recipe);
  passes = std::make_unique<ClipPasses>(model, config.clip_recompute, [this] { return precision->forward_region(); });
  stats_every = std::max<std::int64_t>(1, settings.num_train_steps / 100);
  const auto tensors = amp_torch::named_tensors(model);
  for (const ParamGroup& group : groups) {
    for (const std::string& name : group.names) trained.push_back({name, tensors.at(name)});
  }
  if (accumulation > 1) {
    sink.info(
        "gradients of " + std::to_string(accumulation) + " micro batches are " +
        (config.accumulate == "mean" ? "averaged" : "summed, as in the original (accumulate mean averages them)"));
  }
}

/// Forward and backward of one micro batch; the last one ends with the check. False at the end of the source.
bool Trainer::Impl::micro_batch(std::int64_t micro, StepRecord& record) {
  const auto asked = Clock::now();
  std::optional<data::Batch> batch = source.next();
  record.data_wait_ms += ms_since(asked);
  if (!batch) return false;
  const bool last = micro + 1 == accumulation;

  auto start = Clock::now();
  const BatchTensors in(*batch);
  const at::Tensor logits = passes->forward(*batch, in);
  at::Tensor loss =
      model::example_losses(logits, in.labels, batch->videos,
                            {.aggregation = config.score_agg_func, .type = config.loss_type, .margin = config.margin})
          .mean();
  record.micro_losses.push_back(loss.item<float>());
  if (config.accumulate == "mean") loss = loss / static_cast<double>(accumulation);
  record.forward_ms += ms_since(start);

  start = Clock::now();
  precision->scale_loss(loss, /*delay=*/!last, [&](const at::Tensor& scaled) {
    passes->backward(scaled);
    if (last) complete_gradients();
  });
  record.backward_ms += ms_since(start);
  return true;
}

void Trainer::Impl::complete_gradients() {
  // The original reduces over all parameters: one that no batch reached has a gradient of zero, and decays.
  for (const auto& [name, p] : trained) {
    if (!p.grad().defined()) p.mutable_grad() = at::zeros_like(p);
  }
  if (config.inject_nan_every > 0 && (step + 1) % config.inject_nan_every == 0) {
    trained.front().tensor.mutable_grad().view(-1)[0] = std::numeric_limits<float>::quiet_NaN();
  }
  if (hooks.before_unscale) hooks.before_unscale(step + 1, model);
  if ((step + 1) % stats_every == 0) report_gradients(precision->loss_scale());
}

std::optional<StepRecord> Trainer::Impl::one_step() {
  StepRecord record;
  std::optional<MemoryMeter> meter;
  if (measure) meter.emplace();
  passes->measure(meter ? &*meter : nullptr);
  const auto start = Clock::now();
  record.loss_scale = precision->loss_scale();
  for (std::int64_t micro = 0; micro < accumulation; ++micro) {
    if (!micro_batch(micro, record)) {
      precision->zero_grad();
      return std::nullopt;
    }
  }
  if (meter) {
    measured.activations = passes->activations();
    measured.gradients = precision->memory().gradients;
  }
  const auto update = Clock::now();
  finish(record);
  record.optimizer_ms = ms_since(update);
  const double all_ms = ms_since(start);
  record.step_ms = all_ms - record.data_wait_ms;
  record.examples_per_second = 1e3 * static_cast<double>(settings.total_batch) / all_ms;
  record.mem_bytes = current_rss();
  if (meter) measured.peak_tensors = meter->peak();
  measure = false;
  report(record);
  return record;
}

/// Check, rates, clipping, step, zero_grad. The counter and the rates go on over a skipped step, as in the original;
/// the optimizer's own counters do not. Gradients that are not finite never reach the weights, whatever the scale
/// policy.
void Trainer::Impl::finish(StepRecord& record) {
  record.step = ++step;
  record.lr = schedule.rates(step);
  record.lr_transformer = schedule.transformer_rate(step);
  record.lr_cnn = schedule.cnn_rate(step);
  precision->set_rates(record.lr);
  const bool clips = config.grad_norm != -1;
  const GradientCheck check = precision->check(clips ? std::optional(config.grad_norm) : std::nullopt);
  record.bad_tensor = check.bad_tensor;
  record.skipped = !check.bad_tensor.empty();
  if (record.skipped) {
    precision->drop();
  } else {
    record.grad_norm = check.norm;
    precision->step();
  }
  precision->zero_grad();
  if (fp8) fp8->end_step();
  record.loss_scale_after = precision->loss_scale();
  record.epoch = static_cast<double>(settings.total_batch) * static_cast<double>(step) /
                 static_cast<double>(settings.total_examples);

  for (const double loss : record.micro_losses) {
    record.loss += loss / static_cast<double>(record.micro_losses.size());
    if (std::isfinite(loss)) running.add(loss);
  }
  record.loss_smoothed = running.value();
  skips_in_a_row = record.skipped ? skips_in_a_row + 1 : 0;
  skipped += record.skipped ? 1 : 0;
}

void Trainer::Impl::report_gradients(double scale) {
  for (std::size_t g = 0, first = 0; g < groups.size(); first += groups[g++].names.size()) {
    std::vector<at::Tensor> gradients;
    for (std::size_t i = 0; i < groups[g].names.size(); ++i) gradients.push_back(trained[first + i].tensor.grad());
    train::report_gradients(sink, group_names[g], step + 1, gradients, scale, config.profile);
  }
}

void Trainer::Impl::report(const StepRecord& r) {
  sink.step({.step = r.step,
             .epoch = r.epoch,
             .loss = r.loss,
             .loss_smoothed = r.loss_smoothed,
             .loss_scale = r.loss_scale,
             .skipped = r.skipped,
             .grad_norm = r.grad_norm.value_or(0),
             .lr_transformer = r.lr_transformer,
             .lr_cnn = r.lr_cnn,
             .examples_per_second = r.examples_per_second,
             .data_wait_ms = r.data_wait_ms,
             .step_ms = r.step_ms,
             .mem_bytes = r.mem_bytes});
  if (config.profile) {
    sink.scalar("perf/forward_ms", r.step, r.forward_ms);
    sink.scalar("perf/backward_ms", r.step, r.backward_ms);
    sink.scalar("perf/optimizer_ms", r.step, r.optimizer_ms);
  }
  if (hooks.on_step) hooks.on_step(r);
  if (config.max_consecutive_skips > 0 && skips_in_a_row >= config.max_consecutive_skips) diverge(r);
}

void Trainer::Impl::diverge(const StepRecord& record) const {
  std::string first = "the gradient of " + record.bad_tensor;
  for (const auto& [name, p] : trained) {
    if (at::isfinite(p.detach()).all().item<bool>()) continue;
    first = "the weight " + name;
    break;
  }
  char scale[32];
  std::snprintf(scale, sizeof scale, "%g", record.loss_scale_after);
  throw diverged_error(
      "training diverged at step " + std::to_string(record.step) + ": " + std::to_string(skips_in_a_row) +
      " steps in a row had gradients that are not finite (loss scale " + scale + "); the first bad tensor is " + first +
      "; lower the learning rates, or set min_loss_scale, scale_init or max_consecutive_skips");
}

Trainer::Trainer(model::ClipBert& model, const TrainerSettings& settings, data::BatchSource& source,
                 log::EventSink& sink, TrainerHooks hooks)
    : impl_(std::make_unique<Impl>(model, settings, source, sink, std::move(hooks))) {}
Trainer::~Trainer() = default;

std::optional<StepRecord> Trainer::step() { return impl_->one_step(); }

std::int64_t Trainer::run() {
  while (impl_->step < impl_->settings.num_train_steps && impl_->one_step()) {
    if (impl_->hooks.should_stop && impl_->hooks.should_stop()) break;
  }
  return impl_->step;
}

std::int64_t Trainer::global_step() const noexcept { return impl_->step; }
std::int64_t Trainer::skipped_steps() const noexcept { return impl_->skipped; }
double Trainer::loss_scale() const { return impl_->precision->loss_scale(); }
const std::array<ParamGroup, 8>& Trainer::groups() const noexcept { return impl_->groups; }
void Trainer::measure_next_step() noexcept { impl_->measure = true; }

std::map<std::string, at::Tensor> Trainer::model_state() const {
  auto out = amp_torch::state_dict(impl_->model);
  impl_->precision->for_each_master([&](const std::string& name, const at::Tensor& master) {
    out.at(name) = master.detach().clone(at::MemoryFormat::Contiguous);
  });
  return out;
}

MemoryUse Trainer::memory() const {
  MemoryUse use = impl_->precision->memory();
  use.gradients = impl_->measured.gradients;
  use.activations = impl_->measured.activations;
  use.peak_tensors = impl_->measured.peak_tensors;
  use.peak_rss = peak_rss();
  return use;
}

}  // namespace clipbert::train
