#include "log/event_sink.hpp"

#include <cmath>
#include <utility>

namespace clipbert::log {

std::vector<std::pair<std::string_view, double>> tagged(const StepRecord& r) {
  return {{"train/loss", r.loss},
          {"train/loss_smoothed", r.loss_smoothed},
          {"train/lr_transformer", r.lr_transformer},
          {"train/lr_cnn", r.lr_cnn},
          {"train/grad_norm", r.grad_norm},
          {"amp/loss_scale", r.loss_scale},
          {"amp/skipped", r.skipped ? 1.0 : 0.0},
          {"perf/examples_per_second", r.examples_per_second},
          {"perf/data_wait_ms", r.data_wait_ms},
          {"perf/step_ms", r.step_ms},
          {"perf/mem_bytes", static_cast<double>(r.mem_bytes)}};
}

void FanOut::watch(std::string_view tag, std::int64_t step, double value) {
  if (std::isfinite(value)) return;
  auto found = not_finite_.find(tag);
  if (found == not_finite_.end()) found = not_finite_.emplace(tag, 0).first;
  if (++found->second > 1) return;
  warn(std::string(tag) + " is " +
       (std::isnan(value) ? "NaN"
        : value > 0       ? "+Inf"
                          : "-Inf") +
       " at step " + std::to_string(step) + "; more of this tag are counted, not shown");
}

void FanOut::step(const StepRecord& record) {
  // the norm of a skipped step is what the skip is about
  for (const auto& [tag, value] : tagged(record))
    if (!record.skipped || tag != "train/grad_norm") watch(tag, record.step, value);
  for (auto* sink : sinks_) sink->step(record);
}

void FanOut::scalar(std::string_view tag, std::int64_t step, double value) {
  watch(tag, step, value);
  for (auto* sink : sinks_) sink->scalar(tag, step, value);
}

void FanOut::histogram(std::string_view tag, std::int64_t step, const Histogram& values) {
  for (auto* sink : sinks_) sink->histogram(tag, step, values);
}

void FanOut::text(std::string_view tag, std::int64_t step, std::string_view text) {
  for (auto* sink : sinks_) sink->text(tag, step, text);
}

void FanOut::open(std::vector<EventSink*> sinks) {
  sinks_ = std::move(sinks);
  open_ = true;
  for (const auto& [is_warning, text] : std::exchange(kept_, {})) is_warning ? warn(text) : info(text);
}

void FanOut::info(std::string_view line) {
  if (!open_) kept_.push_back({false, std::string(line)});
  for (auto* sink : sinks_) sink->info(line);
}

void FanOut::warn(std::string_view line) {
  if (!open_) kept_.push_back({true, std::string(line)});
  for (auto* sink : sinks_) sink->warn(line);
}

void FanOut::flush() {
  for (auto* sink : sinks_) sink->flush();
}

void FanOut::summary() {
  for (const auto& [tag, count] : not_finite_)
    if (count > 1) warn(tag + " was no finite number " + std::to_string(count) + " times");
}

}  // namespace clipbert::log
