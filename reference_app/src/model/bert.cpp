#include "model/bert.hpp"

#include <torch/torch.h>

#include <cmath>
#include <string>

#include "config/errors.hpp"

namespace clipbert::model {
namespace {

Linear add_linear(torch::nn::Module& parent, const char* name, std::int64_t in, std::int64_t out) {
  return parent.register_module(name, std::make_shared<LinearLayer>(in, out));
}
Embedding add_embedding(torch::nn::Module& parent, const char* name, std::int64_t rows, std::int64_t width) {
  return parent.register_module(name, std::make_shared<torch::nn::EmbeddingImpl>(rows, width));
}
LayerNorm add_norm(torch::nn::Module& parent, const config::ModelConfig& config) {
  const auto options = torch::nn::LayerNormOptions({config.hidden_size}).eps(config.layer_norm_eps);
  return parent.register_module("LayerNorm", std::make_shared<torch::nn::LayerNormImpl>(options));
}
std::shared_ptr<torch::nn::Module> add_group(torch::nn::Module& parent, const std::string& name) {
  return parent.register_module(name, std::make_shared<torch::nn::Module>(name));
}

at::Tensor drop(const at::Tensor& x, double p, bool training) {
  return p > 0 && training ? at::dropout(x, p, true) : x;
}

/// What is added to the attention scores: 0 for a token that takes part, -10000 for padding.
at::Tensor attention_bias(const at::Tensor& mask, std::int64_t visual_tokens, at::ScalarType type) {
  const auto text = (1.0 - mask.to(type)) * -10000.0;
  return at::constant_pad_nd(text, {0, visual_tokens}).unsqueeze(1).unsqueeze(1);
}

/// softmax(q k^T / sqrt(d) + bias) v. q (N, heads, Q, d); k, v (N, heads, T, d); bias (N, 1, 1, T)
at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias, double p) {
  const bool low = q.scalar_type() == at::kBFloat16 || q.scalar_type() == at::kHalf;
  if (!low || !q.is_cpu()) return at::scaled_dot_product_attention(q, k, v, bias, p);
  // LibTorch's fused kernel is the faster one in fp32, but in bf16 on the CPU its backward takes 2 to 6 times as long.
  const auto scores = at::matmul(q * (1.0 / std::sqrt(static_cast<double>(q.size(3)))), k.transpose(2, 3)) + bias;
  return at::matmul(drop(at::softmax(scores, 3), p, true), v);
}

}  // namespace

TextEmbeddings::TextEmbeddings(const config::ModelConfig& config) {
  const auto options =
      torch::nn::EmbeddingOptions(config.vocab_size, config.hidden_size).padding_idx(config.pad_token_id);
  word_ = register_module("word_embeddings", std::make_shared<torch::nn::EmbeddingImpl>(options));
  position_ = add_embedding(*this, "position_embeddings", config.max_position_embeddings, config.hidden_size);
  type_ = add_embedding(*this, "token_type_embeddings", config.type_vocab_size, config.hidden_size);
  norm_ = add_norm(*this, config);
}

at::Tensor TextEmbeddings::forward(const at::Tensor& ids) {
  if (ids.size(1) > position_->weight.size(0)) {
    throw usage_error("captions of " + std::to_string(ids.size(1)) + " tokens, but the model has " +
                      std::to_string(position_->weight.size(0)) + " positions: lower max_txt_len");
  }
  return norm_->forward(word_->forward(ids) + position_->weight.narrow(0, 0, ids.size(1)) + type_->weight[0]);
}

VisualEmbeddings::VisualEmbeddings(const config::ModelConfig& config) {
  const auto hidden = config.hidden_size;
  add_embedding(*this, "position_embeddings", config.max_position_embeddings, hidden);
  row_ = add_embedding(*this, "row_position_embeddings", config.max_grid_row_position_embeddings, hidden);
  column_ = add_embedding(*this, "col_position_embeddings", config.max_grid_col_position_embeddings, hidden);
  type_ = add_embedding(*this, "token_type_embeddings", 1, hidden);
  norm_ = add_norm(*this, config);
}

at::Tensor VisualEmbeddings::forward(const at::Tensor& grid) {
  const auto rows = grid.size(2), columns = grid.size(3);
  if (rows > row_->weight.size(0) || columns > column_->weight.size(0)) {
    throw usage_error("a grid of " + std::to_string(rows) + " x " + std::to_string(columns) +
                      " is larger than the model's row and column positions: lower max_img_size");
  }
  const auto mean = grid.size(1) == 1 ? grid.select(1, 0) : grid.mean(1);
  const auto placed = mean + row_->weight.narrow(0, 0, rows).unsqueeze(1) + column_->weight.narrow(0, 0, columns);
  return norm_->forward(placed.flatten(1, 2) + type_->weight[0]);
}

EncoderLayer::EncoderLayer(const config::ModelConfig& config)
    : heads_(config.num_attention_heads),
      dropout_(config.hidden_dropout_prob),
      attention_dropout_(config.attention_probs_dropout_prob) {
  const auto hidden = config.hidden_size;
  const auto attention = add_group(*this, "attention");
  const auto self = add_group(*attention, "self");
  query_ = add_linear(*self, "query", hidden, hidden);
  key_ = add_linear(*self, "key", hidden, hidden);
  value_ = add_linear(*self, "value", hidden, hidden);
  const auto attention_output = add_group(*attention, "output");
  attention_dense_ = add_linear(*attention_output, "dense", hidden, hidden);
  attention_norm_ = add_norm(*attention_output, config);
  intermediate_dense_ = add_linear(*add_group(*this, "intermediate"), "dense", hidden, config.intermediate_size);
  const auto output = add_group(*this, "output");
  output_dense_ = add_linear(*output, "dense", config.intermediate_size, hidden);
  output_norm_ = add_norm(*output, config);
}

at::Tensor EncoderLayer::forward(const at::Tensor& x, const at::Tensor& bias, bool first_only) {
  const auto asked = first_only ? x.narrow(1, 0, 1) : x;
  const auto split = [&](const at::Tensor& t) { return t.unflatten(2, {heads_, -1}).transpose(1, 2); };
  const auto q = split(query_->forward(asked)), k = split(key_->forward(x)), v = split(value_->forward(x));
  const auto context = attend(q, k, v, bias, is_training() ? attention_dropout_ : 0.0).transpose(1, 2).flatten(2, 3);
  const auto attended =
      attention_norm_->forward(drop(attention_dense_->forward(context), dropout_, is_training()) + asked);
  const auto inner = at::gelu(intermediate_dense_->forward(attended));  // the exact (erf) form
  return output_norm_->forward(drop(output_dense_->forward(inner), dropout_, is_training()) + attended);
}

Bert::Bert(const config::ModelConfig& config)
    : dropout_(config.hidden_dropout_prob),
      embeddings_(register_module("embeddings", std::make_shared<TextEmbeddings>(config))),
      visual_embeddings_(register_module("visual_embeddings", std::make_shared<VisualEmbeddings>(config))) {
  const auto layers = add_group(*add_group(*this, "encoder"), "layer");
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    layers_.push_back(layers->register_module(std::to_string(i), std::make_shared<EncoderLayer>(config)));
  }
  pooler_dense_ = add_linear(*add_group(*this, "pooler"), "dense", config.hidden_size, config.hidden_size);
}

at::Tensor Bert::forward(const at::Tensor& text, const at::Tensor& visual, const at::Tensor& mask, Activations* keep) {
  const auto note = [&](const std::string& name, const at::Tensor& t) {
    if (keep != nullptr) (*keep)[name] = t;
  };
  note("text_embedding", text);
  note("visual_embedding", visual);
  auto x = drop(at::cat({text, visual}, 1), dropout_, is_training());
  const auto bias = attention_bias(mask, visual.size(1), x.scalar_type());
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    x = layers_[i]->forward(x, bias, keep == nullptr && i + 1 == layers_.size());
    note("layer_" + std::to_string(i), x);
  }
  note("sequence_output", x);
  const auto pooled = at::tanh(pooler_dense_->forward(x.select(1, 0)));
  note("pooled_output", pooled);
  return pooled;
}

Transformer::Transformer(const config::ModelConfig& config)
    : dropout_(config.hidden_dropout_prob), bert_(register_module("bert", std::make_shared<Bert>(config))) {
  const auto classifier = add_group(*this, "classifier");
  hidden_ = add_linear(*classifier, "0", config.hidden_size, 2 * config.hidden_size);
  labels_ = add_linear(*classifier, "2", 2 * config.hidden_size, config.num_labels);
  for (const auto& module : modules(false)) {
    if (const auto* linear = module->as<torch::nn::LinearImpl>()) {
      torch::nn::init::normal_(linear->weight, 0.0, config.initializer_range);
      torch::nn::init::zeros_(linear->bias);
    } else if (const auto* embedding = module->as<torch::nn::EmbeddingImpl>()) {
      torch::nn::init::normal_(embedding->weight, 0.0, config.initializer_range);  // the pad row too, as the original
    }
  }
}

at::Tensor Transformer::forward(const at::Tensor& text, const at::Tensor& visual, const at::Tensor& mask,
                                Activations* keep) {
  const auto pooled = drop(bert_->forward(text, visual, mask, keep), dropout_, is_training());
  return labels_->forward(hidden_->forward(pooled).relu_());
}

}  // namespace clipbert::model
