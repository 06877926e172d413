#include "train/clip_passes.hpp"

#include <torch/torch.h>

#include <utility>

#include "model/clipbert.hpp"

namespace clipbert::train {

BatchTensors::BatchTensors(data::Batch& b) {
  const auto ints = [&](std::vector<std::int64_t>& v, at::IntArrayRef shape) {
    return at::from_blob(v.data(), shape, at::kLong);
  };
  frames = at::from_blob(b.frames.data(), {b.videos, b.clips * b.frames_per_clip, 3, b.height, b.width}, at::kFloat);
  ids = ints(b.ids, {b.texts, b.length});
  mask = ints(b.mask, {b.texts, b.length});
  labels = ints(b.labels, {b.texts});
}

ClipPasses::ClipPasses(model::ClipBert& model, bool one_at_a_time, std::function<amp_torch::OpCast()> region)
    : model_(model), one_at_a_time_(one_at_a_time), region_(std::move(region)) {}

at::Tensor ClipPasses::run(std::int64_t first, std::int64_t clips) {
  const amp_torch::OpCast region = region_();
  const std::int64_t frames = batch_->frames_per_clip;
  return model_
      .forward_clips(in_->frames.narrow(1, first * frames, clips * frames), clips, in_->ids, in_->mask,
                     batch_->n_examples)
      .to(at::kFloat);
}

void ClipPasses::note_graph() {
  if (meter_ != nullptr && activations_ == 0) activations_ = meter_->now();  // before gradients come to it
}

at::Tensor ClipPasses::forward(const data::Batch& batch, const BatchTensors& in) {
  batch_ = &batch;
  in_ = &in;
  if (!one_at_a_time_) {
    logits_ = run(0, batch.clips);
    note_graph();
    return logits_;
  }
  const at::NoGradGuard no_graph;
  const auto generator = at::detail::getDefaultCPUGenerator();
  random_.clear(), statistics_.clear();
  for (const at::Tensor& buffer : model_.buffers()) statistics_.push_back(buffer.clone());
  std::vector<at::Tensor> all;
  for (std::int64_t c = 0; c < batch.clips; ++c) {
    random_.push_back(generator.get_state());
    all.push_back(run(c, 1));
  }
  logits_ = at::cat(all).requires_grad_(true);
  return logits_;
}

void ClipPasses::backward(const at::Tensor& loss) {
  loss.backward();
  if (!one_at_a_time_) return;
  {
    const at::NoGradGuard no_graph;
    std::size_t i = 0;
    for (const at::Tensor& buffer : model_.buffers()) buffer.copy_(statistics_[i++]);
  }
  auto generator = at::detail::getDefaultCPUGenerator();
  for (std::int64_t c = 0; c < batch_->clips; ++c) {
    generator.set_state(random_[static_cast<std::size_t>(c)]);
    const at::Tensor logits = run(c, 1);
    note_graph();
    logits.backward(logits_.grad().narrow(0, c, 1));
  }
  logits_.reset();
}

}  // namespace clipbert::train
