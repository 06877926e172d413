/// A model of a few thousand weights for tests, spread out so that every part of it shows in the result.
#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/clipbert.hpp"

namespace test_support {

inline clipbert::config::CnnConfig small_cnn(const std::string& norm = "frozen_bn", std::int64_t freeze_at = 0) {
  return {.depths = {1, 2},
          .stem_width = 8,
          .bottleneck_width = 4,
          .out_width = 16,
          .stride_in_1x1 = true,
          .norm = norm,
          .norm_eps = 1e-5,
          .freeze_at = freeze_at};
}

inline clipbert::config::ModelConfig small_transformer(std::int64_t labels = 2) {
  clipbert::config::ModelConfig config;
  config.hidden_size = 16;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 2;
  config.intermediate_size = 32;
  config.vocab_size = 40;
  config.max_position_embeddings = 12;
  config.max_grid_row_position_embeddings = config.max_grid_col_position_embeddings = 8;
  config.num_labels = labels;
  config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0;
  config.initializer_range = 0.3;
  return config;
}

/// Seeded; `norm` and `freeze_at` as in CnnConfig.
inline std::shared_ptr<clipbert::model::ClipBert> small_model(const std::string& norm = "frozen_bn",
                                                              std::int64_t labels = 2, double dropout = 0.0) {
  at::set_num_threads(1);  // so small that a second thread only waits, and for long where other tests run
  torch::manual_seed(7);
  auto config = small_transformer(labels);
  config.hidden_dropout_prob = config.attention_probs_dropout_prob = dropout;
  return std::make_shared<clipbert::model::ClipBert>(config, small_cnn(norm));
}

/// Two videos of two clips with two frames, five captions of different lengths.
struct SmallBatch {
  std::int64_t clips = 2;
  std::vector<std::int64_t> n_examples{2, 3};
  at::Tensor frames, ids, mask, labels;

  SmallBatch() {
    torch::manual_seed(11);
    frames = at::randn({2, clips * 2, 3, 64, 96});
    ids = at::randint(1, 40, {5, 9}, at::kLong);
    mask = (at::arange(9).unsqueeze(0) < at::tensor({9, 4, 6, 5, 7}, at::kLong).unsqueeze(1)).to(at::kLong);
    ids = ids * mask;
    labels = at::tensor({1, 0, 1, 0, 0}, at::kLong);
  }
  [[nodiscard]] at::Tensor clip(std::int64_t c) const { return frames.narrow(1, 2 * c, 2); }
};

/// Largest absolute difference.
inline double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

}  // namespace test_support
