/// The forward and backward pass of a micro batch.
#pragma once
#include <ATen/core/Tensor.h>

#include <amp_torch/op_cast.hpp>
#include <cstdint>
#include <functional>
#include <vector>

#include "data/batch.hpp"
#include "train/memory.hpp"

namespace clipbert::model {
class ClipBert;
}

namespace clipbert::train {

/// A batch as tensors. The frames are used where they lie, so the batch must outlive them.
struct BatchTensors {
  at::Tensor frames, ids, mask, labels;
  explicit BatchTensors(data::Batch& batch);
};

/// All clips at once; or one at a time, where the logits of all clips are made first, without their graphs, and each
/// clip is run again with its own logits' gradient: the memory of one clip for one more forward pass. Random numbers
/// and running statistics are those of one pass.
class ClipPasses {
 public:
  /// `region` is what a forward pass runs in.
  ClipPasses(model::ClipBert& model, bool one_at_a_time, std::function<amp_torch::OpCast()> region);

  /// What a loss is made from.
  /// shape   -> (clips, N, labels) in fp32
  [[nodiscard]] at::Tensor forward(const data::Batch& batch, const BatchTensors& in);
  /// Adds the gradients of the loss of the last forward() to the parameters'.
  void backward(const at::Tensor& loss);

  /// Notes what the next graph holds in memory; nullptr: no more.
  void measure(const MemoryMeter* meter) noexcept { meter_ = meter, activations_ = 0; }
  [[nodiscard]] std::int64_t activations() const noexcept { return activations_; }

 private:
  [[nodiscard]] at::Tensor run(std::int64_t first, std::int64_t clips);
  void note_graph();

  model::ClipBert& model_;
  bool one_at_a_time_;
  std::function<amp_torch::OpCast()> region_;
  const MemoryMeter* meter_ = nullptr;
  std::int64_t activations_ = 0;
  // of the last forward
  const data::Batch* batch_ = nullptr;
  const BatchTensors* in_ = nullptr;
  at::Tensor logits_;
  std::vector<at::Tensor> random_, statistics_;
};

}  // namespace clipbert::train
