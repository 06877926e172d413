/// The training loop: clips to logits to loss, scaled backward, check, rates, clipping, step.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "data/batch.hpp"
#include "train/memory.hpp"
#include "train/param_groups.hpp"
#include "train/state.hpp"

namespace clipbert::model {
class ClipBert;
}
namespace clipbert::log {
class EventSink;
}

namespace clipbert::train {

/// What the trainer needs to know. Counts of steps, batch and examples are given, not derived here.
struct TrainerSettings {
  config::Config config;             ///< as effective() leaves it; what is unset there follows from the level
  std::int64_t num_train_steps = 1;  ///< optimizer steps of the whole run; the schedules end there
  std::int64_t total_batch = 1;      ///< examples of one optimizer step, over all micro batches
  std::int64_t total_examples = 1;   ///< examples of one epoch
  std::optional<double> eps;         ///< unset: 1e-6 for adamw, 1e-8 for adam and adamax
  bool correct_bias = true;          ///< of adamw
};

/// One optimizer step as it went.
struct StepRecord {
  std::int64_t step = 0;             ///< counted from 1, skipped steps too
  double epoch = 0;                  ///< examples seen over examples of an epoch
  double loss = 0;                   ///< mean over the micro batches
  std::vector<double> micro_losses;  ///< of each micro batch
  double loss_smoothed = 0;          ///< running mean, smoothing 0.99
  double loss_scale = 1;             ///< that the gradients were made with
  double loss_scale_after = 1;
  bool skipped = false;
  std::string bad_tensor;           ///< of a skipped step: the first parameter whose gradient is not finite
  std::optional<double> grad_norm;  ///< before clipping, of the unscaled gradients
  std::array<double, 8> lr{};       ///< of the eight groups
  double lr_transformer = 0, lr_cnn = 0;
  double examples_per_second = 0;
  double data_wait_ms = 0, step_ms = 0;  ///< step_ms: without the wait
  double forward_ms = 0, backward_ms = 0, optimizer_ms = 0;
  std::int64_t mem_bytes = 0;  ///< resident memory of the process
};

/// Called from the loop; each may be empty.
struct TrainerHooks {
  /// After backward and the zero fill, before unscaling and the check. `step` counts from 1.
  std::function<void(std::int64_t step, model::ClipBert& model)> before_unscale = {};
  std::function<void(const StepRecord&)> on_step = {};
  /// Asked after each step; true ends run().
  std::function<bool()> should_stop = {};
};

/// Trains a model. The model must be in fp32 and is cast here, as the level says; source and sink must outlive it.
class Trainer {
 public:
  /// throws  usage_error for settings that contradict one another or that this device cannot run
  Trainer(model::ClipBert& model, const TrainerSettings& settings, data::BatchSource& source, log::EventSink& sink,
          TrainerHooks hooks = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;  // the optimizer holds the addresses of the model's weights
  Trainer& operator=(const Trainer&) = delete;

  /// One optimizer step; nothing when the source is at its end, where a last short group is dropped.
  /// throws  diverged_error, naming the first bad tensor, after too many skipped steps in a row
  std::optional<StepRecord> step();
  /// Steps until num_train_steps, the end of the source or should_stop. -> the number of steps done so far
  std::int64_t run();

  [[nodiscard]] std::int64_t global_step() const noexcept;
  [[nodiscard]] std::int64_t skipped_steps() const noexcept;
  [[nodiscard]] double loss_scale() const;
  /// The eight groups; some may be empty.
  [[nodiscard]] const std::array<ParamGroup, 8>& groups() const noexcept;

  /// Everything that a resumed run needs, bit exact: weights, masters, moments, counters, scaler, schedule, random
  /// numbers, data position, running loss.
  [[nodiscard]] TrainingState state() const;
  /// Goes on from a state that a trainer with the same model and settings saved.
  /// throws  content_error naming what does not fit
  void load(const TrainingState& state);
  /// The model in fp32 under the original's names; the fp32 masters where there are any, which round to the weights.
  [[nodiscard]] std::map<std::string, at::Tensor> model_state() const;

  /// Bytes by kind; gradients, activations and peaks as of the last step that measured (see measure_next_step).
  [[nodiscard]] MemoryUse memory() const;
  /// Counts the bytes of the next step's tensors, which costs a little time.
  void measure_next_step() noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace clipbert::train
