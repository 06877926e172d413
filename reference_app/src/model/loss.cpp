#include "model/loss.hpp"

#include <torch/torch.h>

#include <string>

#include "config/errors.hpp"

namespace clipbert::model {

at::Tensor pooled_scores(const at::Tensor& logits, std::string_view aggregation) {
  if (aggregation == "mean") return logits.mean(0);
  if (aggregation == "max") return std::get<0>(logits.max(0));
  if (aggregation == "lse") return at::logsumexp(logits, 0);
  throw usage_error("score_agg_func: \"" + std::string(aggregation) + "\" is not known; use lse, mean or max");
}

at::Tensor match_probability(const at::Tensor& logits, std::string_view aggregation) {
  const auto pooled = pooled_scores(logits, aggregation);
  return pooled.size(1) == 2 ? at::softmax(pooled, 1).select(1, 1) : at::sigmoid(pooled.select(1, 0));
}

at::Tensor example_losses(const at::Tensor& logits, const at::Tensor& labels, std::int64_t videos,
                          const LossOptions& options) {
  if (options.type != "ce" && options.type != "rank") {
    throw usage_error("loss_type: \"" + std::string(options.type) + "\" is not known; use ce or rank");
  }
  if (options.aggregation == "lse") {
    if (options.type != "ce") throw usage_error("score_agg_func lse needs loss_type ce; use mean or max with rank");
    const auto whole = at::logsumexp(logits.permute({1, 0, 2}).flatten(1), 1, true);
    return (whole - at::logsumexp(logits, 0)).gather(1, labels.unsqueeze(1));
  }
  const auto pooled = pooled_scores(logits, options.aggregation);
  if (options.type == "ce") return at::cross_entropy_loss(pooled, labels, {}, at::Reduction::None);
  if (pooled.size(1) != 1 || videos < 1 || pooled.size(0) % videos != 0) {
    throw usage_error("loss_type rank needs one label per pair and as many captions for each video; there are " +
                      std::to_string(pooled.size(1)) + " labels and " + std::to_string(pooled.size(0)) +
                      " captions for " + std::to_string(videos) + " videos");
  }
  const auto match = at::sigmoid(pooled).reshape({videos, -1});
  const auto positive = match.narrow(1, 0, 1), negative = match.narrow(1, 1, match.size(1) - 1);
  return (options.margin + negative - positive).clamp_min(0);
}

}  // namespace clipbert::model
