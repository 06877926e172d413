#include "train/memory_plan.hpp"

#include <torch/torch.h>

#include <amp_torch/op_cast.hpp>
#include <vector>

#include "model/clipbert.hpp"
#include "train/trainer.hpp"

namespace clipbert::train {
namespace {

/// Bytes that a forward pass of one clip of each video keeps for its backward.
std::int64_t kept_bytes(model::ClipBert& model, const config::Config& config, const BatchShape& shape,
                        std::int64_t videos, std::int64_t texts_of_each) {
  const at::Tensor frames = at::zeros({videos, shape.frames_per_clip, 3, shape.size, shape.size});
  const at::Tensor ids = at::zeros({videos * texts_of_each, shape.length}, at::kLong), mask = at::ones_like(ids);
  const std::vector<std::int64_t> n_examples(static_cast<std::size_t>(videos), texts_of_each);
  const MemoryMeter meter;
  const amp_torch::OpCast region = config.opt_level == "O1"
                                       ? amp_torch::OpCast(config.amp_dtype == "fp16" ? at::kHalf : at::kBFloat16)
                                       : amp_torch::OpCast();
  const at::Tensor logits = model.forward_clips(frames, 1, ids, mask, n_examples);
  return meter.now();
}

}  // namespace

BatchShape batch_shape(const config::Config& c) {
  return {.videos = c.train_batch_size,
          .texts = c.train_batch_size * c.max_n_example_per_group * (1 + c.itm_neg_size),
          .clips = c.train_n_clips,
          .frames_per_clip = c.num_frm,
          .size = c.max_img_size,
          .length = c.max_txt_len};
}

std::int64_t frame_bytes(const BatchShape& s) {
  return 4 * 3 * s.size * s.size * s.videos * s.clips * s.frames_per_clip;
}

MemoryUse plan_memory(model::ClipBert& model, const Trainer& trainer, const config::Config& config,
                      const BatchShape& shape) {
  MemoryUse use = trainer.memory();
  use.gradients = 0;
  for (const at::Tensor& p : model.parameters()) {
    if (p.requires_grad()) use.gradients += static_cast<std::int64_t>(p.nbytes());
  }
  static_cast<void>(kept_bytes(model, config, {.size = 64, .length = 2}, 1, 1));  // what a first pass sets up for good
  const std::int64_t one = kept_bytes(model, config, shape, 1, 1);
  const std::int64_t text = kept_bytes(model, config, shape, 1, 2) - one;
  const std::int64_t video = kept_bytes(model, config, shape, 2, 1) - one - text;
  const std::int64_t weights = one - video - text;  // what is kept once, as the casts of O1
  use.activations = weights + (config.clip_recompute ? 1 : shape.clips) * (shape.videos * video + shape.texts * text);
  return use;
}

}  // namespace clipbert::train
