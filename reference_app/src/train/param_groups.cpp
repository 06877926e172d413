#include "train/param_groups.hpp"

#include <algorithm>

#include "config/errors.hpp"

namespace clipbert::train {
namespace {

bool holds(std::string_view name, std::string_view part) { return name.find(part) != std::string_view::npos; }

bool decays(std::string_view name) {
  return !holds(name, "bias") && !holds(name, "LayerNorm.bias") && !holds(name, "LayerNorm.weight");
}

}  // namespace

std::array<ParamGroup, 8> eight_groups(std::span<const NamedParam> params, const config::Config& config) {
  struct Side {
    std::string_view part, prefix;
    double top_rate, decay;
  };
  const std::array<Side, 2> sides{
      {{"transformer", config.transformer_lr_mul_prefix, config.transformer_lr_mul * config.learning_rate,
        config.weight_decay},
       {"cnn", config.cnn_lr_mul_prefix, config.cnn_lr_mul * config.cnn_learning_rate, config.cnn_weight_decay}}};
  std::array<ParamGroup, 8> groups;
  for (std::size_t s = 0; s < sides.size(); ++s)
    for (std::size_t i = 0; i < 4; ++i) {
      groups[4 * s + i].lr = i < 2 ? sides[s].top_rate : config.learning_rate;
      groups[4 * s + i].weight_decay = i % 2 == 0 ? sides[s].decay : 0.0;
    }
  for (const auto& [name, trainable] : params) {
    if (!trainable) continue;
    const auto side = std::ranges::find_if(sides, [&](const Side& candidate) { return holds(name, candidate.part); });
    if (side == sides.end())
      throw usage_error("parameter " + name + " is neither part of transformer nor of cnn, so no group trains it");
    const bool top = !side->prefix.empty() && holds(name, side->prefix);
    const auto at = static_cast<std::size_t>(side - sides.begin()) * 4 + (top ? 0 : 2) + (decays(name) ? 0 : 1);
    groups[at].names.push_back(name);
  }
  return groups;
}

}  // namespace clipbert::train
