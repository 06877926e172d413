/// ClipBERT for video-text retrieval: frames and captions to match logits, with the names of the original's state dict.
#pragma once
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "model/bert.hpp"
#include "model/resnet.hpp"

namespace clipbert::model {

/// Which norms stay fp32 when the weights become low.
struct NormTypes {
  bool trained_fp32 = true;  ///< keep_batchnorm_fp32: weights and statistics of trainable batch norms
  bool frozen_fp32 = true;   ///< frozen_norm_dtype fp32: the buffers of frozen ones
};

/// The whole model. Freshly built it is initialised from torch's default generator and in training mode.
/// throws  usage_error if the settings cannot be built: labels not 1 or 2, heads that do not divide the width, ...
class ClipBert final : public torch::nn::Module {
 public:
  ClipBert(const config::ModelConfig& model, const config::CnnConfig& cnn);

  /// One clip of each video, as the original runs it.
  /// shape   frames (V, F, 3, H, W), RGB, normalised, any type; ids, mask (N, L); n_examples: captions of each video,
  ///         N in all -> logits (N, labels) in fp32, or fp64 where the weights are
  /// With `keep` res5, grid, text_embedding, visual_embedding, layer_i, sequence_output and pooled_output are noted.
  at::Tensor forward(const at::Tensor& frames, const at::Tensor& ids, const at::Tensor& mask,
                     std::span<const std::int64_t> n_examples, Activations* keep = nullptr);

  /// All clips at once: the same logits from fewer and larger operations.
  /// shape   frames (V, clips * F, 3, H, W), clip-major -> logits (clips, N, labels)
  /// Trainable norms in training mode see one clip after the other, since their statistics would differ otherwise.
  at::Tensor forward_clips(const at::Tensor& frames, std::int64_t clips, const at::Tensor& ids, const at::Tensor& mask,
                           std::span<const std::int64_t> n_examples);

  /// The three parts of forward(), for callers that pair each video with many captions.
  at::Tensor encode_frames(const at::Tensor& frames, Activations* keep = nullptr);  ///< -> grid (V, F, h, w, hidden)
  at::Tensor embed_grid(const at::Tensor& grid);                                    ///< -> (V, h * w, hidden)
  at::Tensor embed_text(const at::Tensor& ids);                                     ///< (N, L) -> (N, L, hidden)
  /// text (N, L, hidden), visual (N, T, hidden), mask (N, L) -> logits (N, labels)
  at::Tensor match(const at::Tensor& text, const at::Tensor& visual, const at::Tensor& mask,
                   Activations* keep = nullptr);

  /// Casts weights and buffers in place, counters excepted. Gradients must not exist yet.
  void cast(at::ScalarType type, NormTypes norms = {});
  /// freeze_cnn: `cnn.feature.*` takes no gradient.
  void freeze_cnn();
  /// The type of the weights.
  [[nodiscard]] at::ScalarType type() const { return transformer_->type(); }
  [[nodiscard]] at::Device device() const;
  [[nodiscard]] std::int64_t labels() const { return labels_; }
  /// Parameters and buffers by name, aliasing the model's.
  [[nodiscard]] std::map<std::string, at::Tensor> named_tensors() const;

 private:
  std::int64_t labels_;
  bool norms_train_;
  std::shared_ptr<Cnn> cnn_;
  std::shared_ptr<Transformer> transformer_;
};

/// Row i of `rows` n_examples[i] times: (V, ...) -> (N, ...).
at::Tensor repeat_rows(const at::Tensor& rows, std::span<const std::int64_t> n_examples);

/// Tokens of the longest caption; what lies behind is padding in every row. mask (N, L) -> 1 to L
std::int64_t used_length(const at::Tensor& mask);

}  // namespace clipbert::model
