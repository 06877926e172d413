#include <torch/torch.h>
#include <unistd.h>

#include <iostream>

#include "cli/frame.hpp"
#include "cli/run_head.hpp"
#include "cli/table.hpp"
#include "cli/train_run.hpp"
#include "cli/training.hpp"
#include "model/clipbert.hpp"
#include "train/memory_plan.hpp"

namespace clipbert::cli {
namespace {

/// A dry run has no batches.
class NoBatches final : public data::BatchSource {
 public:
  std::optional<data::Batch> next() override { return std::nullopt; }
  [[nodiscard]] std::int64_t position() const override { return 0; }
  void seek(std::int64_t) override {}
};

class Printer final : public log::EventSink {
 public:
  void info(std::string_view line) override { std::cout << line << '\n'; }
  void warn(std::string_view line) override { std::cout << "warning: " << line << '\n'; }
};

void print_memory(const train::MemoryUse& use, const config::Config& c, log::EventSink& out) {
  const train::BatchShape shape = train::batch_shape(c);
  const std::int64_t frames = train::frame_bytes(shape), cache = c.video_cache_mb << 20;
  const std::int64_t sum = use.total() + 2 * frames;  // the one that is trained on, and the next
  out.info("memory       weights " + megabytes(use.weights) + ", masters " + megabytes(use.masters) + ", gradients " +
           megabytes(use.gradients) + ", optimizer state " + megabytes(use.optimizer));
  out.info("             activations about " + megabytes(use.activations) +
           " (measured on one clip of one video, for " + std::to_string(shape.videos) + " videos, " +
           std::to_string(shape.texts) + " captions" +
           (c.clip_recompute ? ", one clip at a time)" : ", " + std::to_string(shape.clips) + " clips)"));
  out.info("             frames of a batch " + megabytes(frames) + ", kept decoded frames up to " + megabytes(cache));
  const std::int64_t machine = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  out.info("             in all about " + megabytes(sum) + "; this machine has " + megabytes(machine));
  if (sum <= machine) return;
  out.warn("a step needs more memory than this machine has; lower train_batch_size, train_n_clips, num_frm or " +
           std::string("max_img_size") + (c.clip_recompute ? "" : ", or set clip_recompute 1"));
}

}  // namespace

int run_dry(config::Loaded loaded) {
  Warnings warnings;
  const Settings settings = settle(std::move(loaded));
  const TrainingData data = open_data(settings, warnings);
  const config::Config& c = settings.config;
  Printer out;
  std::cout << config::listing(c) << '\n';
  for (const auto& line : run_head(settings, data)) out.info(line);
  const auto model = build_model(settings, true, [&](const std::string& line) { out.info(line); });
  for (const auto& line : model_head(*model, c)) out.info(line);
  NoBatches none;
  const train::Trainer trainer(*model, trainer_settings(settings, data.plan), none, out);
  print_memory(train::plan_memory(*model, trainer, c, train::batch_shape(c)), c, out);
  for (const auto& line : settings.warnings) out.warn(line);
  for (const auto& line : warnings.take()) out.warn(line);
  for (const auto& line : settings.notes) out.info("note: " + line);
  return done;
}

}  // namespace clipbert::cli
