#include "train/trainer.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <amp_torch/state_dict.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <utility>

#include "config/errors.hpp"
#include "log/event_sink.hpp"
#include "model/clipbert.hpp"
#include "model/loss.hpp"
#include "train/param_groups.hpp"
#include "train/precision.hpp"
#include "train/schedule.hpp"

namespace clipbert::train {
namespace {

using Clock = std::chrono::steady_clock;
double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// A batch as tensors. The frames are used where they lie, so the batch must outlive them.
struct BatchTensors {
  at::Tensor frames, ids, mask, labels;

  explicit BatchTensors(data::Batch& b) {
    const auto ints = [&](std::vector<std::int64_t>& v, at::IntArrayRef shape) {
      return at::from_blob(v.data(), shape, at::kLong);
    };
    frames = at::from_blob(b.frames.data(), {b.videos, b.clips * b.frames_per_clip, 3, b.height, b.width}, at::kFloat);
    ids = ints(b.ids, {b.texts, b.length});
    mask = ints(b.mask, {b.texts, b.length});
    labels = ints(b.labels, {b.texts});
  }
};

amp::SavedTensor saved(const at::Tensor& t) {
  static const std::map<at::ScalarType, const char*> names{
      {at::kFloat, "F32"}, {at::kDouble, "F64"}, {at::kHalf, "F16"}, {at::kBFloat16, "BF16"},
      {at::kLong, "I64"},  {at::kInt, "I32"},    {at::kByte, "U8"},  {at::kBool, "BOOL"}};
  const at::Tensor dense = t.detach().contiguous();
  amp::SavedTensor out{names.at(t.scalar_type()), dense.sizes().vec(), std::vector<std::byte>(dense.nbytes())};
  if (!out.bytes.empty()) std::memcpy(out.bytes.data(), dense.const_data_ptr(), out.bytes.size());
  return out;
}

/// Copies a saved tensor into one of the same type and shape, bit for bit.
void restore(const at::Tensor& t, const std::string& name, const amp::StateDict& state) {
  const auto found = state.find(name);
  if (found == state.end()) throw content_error("the state lacks \"" + name + "\": is it of another model?");
  const amp::SavedTensor own = saved(t);
  if (found->second.type != own.type || found->second.shape != own.shape) {
    throw content_error("\"" + name + "\" of the state has another type or shape than the model's");
  }
  const at::Tensor copy = at::from_blob(const_cast<std::byte*>(found->second.bytes.data()), t.sizes(), t.scalar_type());
  const at::NoGradGuard no_grad;
  t.copy_(copy);
}

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

const std::string model_prefix = "model.", session_prefix = "session.", random_key = "random.cpu";

}  // namespace

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
  std::int64_t step = 0, skipped = 0, skips_in_a_row = 0;
  RunningLoss running;
  MemoryUse measured;
  bool measure = false;

  Impl(model::ClipBert& m, const TrainerSettings& s, data::BatchSource& src, log::EventSink& snk, TrainerHooks h);

  std::optional<StepRecord> one_step();
  bool micro_batch(std::int64_t micro, StepRecord& record, const MemoryMeter* meter);
  void backward(const at::Tensor& scaled, bool last);
  void finish(StepRecord& record);
  void report(const StepRecord& record);
  [[noreturn]] void diverge(const StepRecord& record) const;
  [[nodiscard]] std::map<std::string, at::Tensor> untrained() const;
};

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
  if (config.clip_recompute) throw usage_error("clip_recompute 1 is not supported; use 0");
  std::vector<NamedParam> names;
  for (const auto& p : model.named_parameters()) names.push_back({p.key(), p.value().requires_grad()});
  groups = eight_groups(names, config);
  precision = make_precision(model, settings, groups, [this](std::string_view line) { sink.info(line); });
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
bool Trainer::Impl::micro_batch(std::int64_t micro, StepRecord& record, const MemoryMeter* meter) {
  const auto asked = Clock::now();
  std::optional<data::Batch> batch = source.next();
  record.data_wait_ms += ms_since(asked);
  if (!batch) return false;
  const bool last = micro + 1 == accumulation;

  auto start = Clock::now();
  const BatchTensors in(*batch);
  at::Tensor logits;
  {
    const amp_torch::OpCast region = precision->forward_region();
    logits = model.forward_clips(in.frames, batch->clips, in.ids, in.mask, batch->n_examples);
  }
  at::Tensor loss =
      model::example_losses(logits.to(at::kFloat), in.labels, batch->videos,
                            {.aggregation = config.score_agg_func, .type = config.loss_type, .margin = config.margin})
          .mean();
  record.micro_losses.push_back(loss.item<float>());
  if (config.accumulate == "mean") loss = loss / static_cast<double>(accumulation);
  record.forward_ms += ms_since(start);
  if (meter != nullptr && micro == 0) measured.activations = meter->now();

  start = Clock::now();
  precision->scale_loss(loss, /*delay=*/!last, [&](const at::Tensor& scaled) { backward(scaled, last); });
  record.backward_ms += ms_since(start);
  return true;
}

void Trainer::Impl::backward(const at::Tensor& scaled, bool last) {
  scaled.backward();
  if (!last) return;
  // The original reduces over all parameters: one that no batch reached has a gradient of zero, and decays.
  for (const auto& [name, p] : trained) {
    if (!p.grad().defined()) p.mutable_grad() = at::zeros_like(p);
  }
  if (config.inject_nan_every > 0 && (step + 1) % config.inject_nan_every == 0) {
    trained.front().tensor.mutable_grad().view(-1)[0] = std::numeric_limits<float>::quiet_NaN();
  }
  if (hooks.before_unscale) hooks.before_unscale(step + 1, model);
}

std::optional<StepRecord> Trainer::Impl::one_step() {
  StepRecord record;
  std::optional<MemoryMeter> meter;
  if (measure) meter.emplace();
  const auto start = Clock::now();
  record.loss_scale = precision->loss_scale();
  for (std::int64_t micro = 0; micro < accumulation; ++micro) {
    if (!micro_batch(micro, record, meter ? &*meter : nullptr)) {
      precision->zero_grad();
      return std::nullopt;
    }
  }
  if (meter) measured.gradients = precision->memory().gradients;
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

/// What no optimizer holds: buffers and frozen parameters.
std::map<std::string, at::Tensor> Trainer::Impl::untrained() const {
  auto tensors = amp_torch::named_tensors(model);
  for (const auto& [name, p] : trained) tensors.erase(name);
  return tensors;
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

TrainingState Trainer::state() const {
  TrainingState out;
  out.step = impl_->step;
  for (auto& [key, tensor] : impl_->precision->state()) out.tensors.emplace(session_prefix + key, std::move(tensor));
  for (const auto& [name, t] : impl_->untrained()) out.tensors.emplace(model_prefix + name, saved(t));
  out.tensors.emplace(random_key, saved(at::detail::getDefaultCPUGenerator().get_state()));
  out.meta = {{"position", impl_->source.position()},
              {"skipped", impl_->skipped},
              {"skips_in_a_row", impl_->skips_in_a_row},
              {"loss_smoothed", impl_->running.value()},
              {"loss_started", impl_->running.started()}};
  return out;
}

void Trainer::load(const TrainingState& state) {
  amp::StateDict session;
  for (const auto& [key, tensor] : state.tensors) {
    if (key.starts_with(session_prefix)) session.emplace(key.substr(session_prefix.size()), tensor);
  }
  try {
    impl_->precision->load(session);
    for (const auto& [name, t] : impl_->untrained()) restore(t, model_prefix + name, state.tensors);
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    const at::Tensor random = generator.get_state();
    restore(random, random_key, state.tensors);
    generator.set_state(random);
    impl_->step = state.step;
    impl_->skipped = state.meta.at("skipped");
    impl_->skips_in_a_row = state.meta.at("skips_in_a_row");
    impl_->running.restore(state.meta.at("loss_smoothed"), state.meta.at("loss_started"));
    impl_->source.seek(state.meta.at("position"));
  } catch (const amp::error& e) {
    throw content_error(std::string("the state does not fit this run: ") + e.what());
  } catch (const nlohmann::json::exception& e) {
    throw content_error(std::string("the state lacks a counter: ") + e.what());
  }
}

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
