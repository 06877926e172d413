/// The joint transformer over text and grid tokens: post-norm BERT with the original's names.
#pragma once
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "config/config.hpp"
#include "model/resnet.hpp"

namespace clipbert::model {

/// x w^T + b, where it is not LibTorch's own product.
using Product = std::function<at::Tensor(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b)>;

/// A linear layer whose product in training mode can be replaced.
class LinearLayer final : public torch::nn::LinearImpl {
 public:
  using torch::nn::LinearImpl::LinearImpl;
  at::Tensor forward(const at::Tensor& x) {
    return product && is_training() ? product(x, weight, bias) : torch::nn::LinearImpl::forward(x);
  }
  Product product;
};

using Linear = std::shared_ptr<LinearLayer>;
using Embedding = std::shared_ptr<torch::nn::EmbeddingImpl>;
using LayerNorm = std::shared_ptr<torch::nn::LayerNormImpl>;

/// Word + position + type vectors, normalised. Dropout follows where tokens are joined, see Bert::forward.
class TextEmbeddings final : public torch::nn::Module {
 public:
  explicit TextEmbeddings(const config::ModelConfig& config);
  at::Tensor forward(const at::Tensor& ids);  ///< (N, L) -> (N, L, hidden)

 private:
  Embedding word_, position_, type_;
  LayerNorm norm_;
};

/// Mean over frames + row, column and type vectors, normalised. `position_embeddings` exists and is never read.
class VisualEmbeddings final : public torch::nn::Module {
 public:
  explicit VisualEmbeddings(const config::ModelConfig& config);
  at::Tensor forward(const at::Tensor& grid);  ///< (V, F, h, w, hidden) -> (V, h * w, hidden), row-major

 private:
  Embedding row_, column_, type_;
  LayerNorm norm_;
};

/// Self-attention and feed-forward, each followed by dropout, residual and LayerNorm.
class EncoderLayer final : public torch::nn::Module {
 public:
  explicit EncoderLayer(const config::ModelConfig& config);
  /// x (N, T, hidden); bias (N, 1, 1, T) is added to the attention scores.
  /// With `first_only` the result is (N, 1, hidden): what token 0 becomes.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& bias, bool first_only);

 private:
  std::int64_t heads_;
  double dropout_, attention_dropout_;
  Linear query_, key_, value_, attention_dense_, intermediate_dense_, output_dense_;
  LayerNorm attention_norm_, output_norm_;
};

/// `transformer.bert`.
class Bert final : public torch::nn::Module {
 public:
  explicit Bert(const config::ModelConfig& config);
  at::Tensor embed_text(const at::Tensor& ids) { return embeddings_->forward(ids); }
  at::Tensor embed_grid(const at::Tensor& grid) { return visual_embeddings_->forward(grid); }
  /// text (N, L, hidden), visual (N, T, hidden), mask (N, L) of 0 and 1 -> pooled (N, hidden)
  /// Without `keep` the last layer computes token 0 alone, the only one that the pooler reads.
  at::Tensor forward(const at::Tensor& text, const at::Tensor& visual, const at::Tensor& mask,
                     Activations* keep = nullptr);

 private:
  double dropout_;
  std::shared_ptr<TextEmbeddings> embeddings_;
  std::shared_ptr<VisualEmbeddings> visual_embeddings_;
  std::vector<std::shared_ptr<EncoderLayer>> layers_;
  Linear pooler_dense_;
};

/// `transformer.*`: joint encoder and a two-layer classifier of width 2 * hidden.
class Transformer final : public torch::nn::Module {
 public:
  explicit Transformer(const config::ModelConfig& config);
  [[nodiscard]] Bert& bert() { return *bert_; }
  /// As Bert::forward, then dropout and classifier -> logits (N, labels) in the weights' type.
  at::Tensor forward(const at::Tensor& text, const at::Tensor& visual, const at::Tensor& mask,
                     Activations* keep = nullptr);
  [[nodiscard]] at::ScalarType type() const { return hidden_->weight.scalar_type(); }

 private:
  double dropout_;
  std::shared_ptr<Bert> bert_;
  Linear hidden_, labels_;
};

}  // namespace clipbert::model
