/// Scores and losses over the clips of a video.
/// source  Lei et al. 2021 (arXiv:2102.06183), section 3; the original's training loop
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

namespace clipbert::model {

/// How the logits of several clips become one, and what is minimised.
struct LossOptions {
  std::string_view aggregation = "mean";  ///< score_agg_func: lse, mean or max
  std::string_view type = "ce";           ///< loss_type: ce or rank
  double margin = 0.2;                    ///< of the rank loss
};

/// Logits pooled over clips.
/// shape   logits (clips, N, labels) -> (N, labels)
/// throws  usage_error for an unknown aggregation
at::Tensor pooled_scores(const at::Tensor& logits, std::string_view aggregation);

/// What videos are ranked by: the probability of a match.
/// shape   logits (clips, N, labels) -> (N); the softmax' class 1 with two labels, the sigmoid with one
at::Tensor match_probability(const at::Tensor& logits, std::string_view aggregation);

/// Training loss of each example; the loss of a batch is the plain mean of all elements.
/// shape   logits (clips, N, labels), labels (N) int64; captions of each of `videos` stand together, positive first
///         -> (N, 1) for lse, (N) for mean and max with ce, (videos, N / videos - 1) for rank
/// throws  usage_error for an unknown word, lse with rank, or N that `videos` does not divide in a rank loss
at::Tensor example_losses(const at::Tensor& logits, const at::Tensor& labels, std::int64_t videos,
                          const LossOptions& options);

}  // namespace clipbert::model
