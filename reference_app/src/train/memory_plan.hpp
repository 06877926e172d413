/// The memory that a training step will take, before there is a batch.
#pragma once
#include <cstdint>

#include "config/config.hpp"
#include "train/memory.hpp"

namespace clipbert::model {
class ClipBert;
}

namespace clipbert::train {

class Trainer;

/// The sizes of a micro batch.
struct BatchShape {
  std::int64_t videos = 1, texts = 1;  ///< texts: of all videos, negatives included
  std::int64_t clips = 1, frames_per_clip = 1;
  std::int64_t size = 448;   ///< pixels of a frame's sides
  std::int64_t length = 20;  ///< tokens of a text
};

/// The shape that the settings lead to, with captions of full length.
[[nodiscard]] BatchShape batch_shape(const config::Config& config);

/// Bytes of the frames of a micro batch as they come from the loader.
[[nodiscard]] std::int64_t frame_bytes(const BatchShape& shape);

/// What a step of a trainer will hold. Weights, masters, gradients and moments are exact; activations are measured on
/// one clip of one video and of two, with one caption and with two, and carried over to the batch: the first and the
/// last operations of a pass weigh a little differently there.
[[nodiscard]] MemoryUse plan_memory(model::ClipBert& model, const Trainer& trainer, const config::Config& config,
                                    const BatchShape& shape);

}  // namespace clipbert::train
