/// ClipBERT's eight parameter groups, by name.
#pragma once
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"

namespace clipbert::train {

struct NamedParam {
  std::string name;  ///< as in the state dict
  bool trainable = true;
};

struct ParamGroup {
  std::vector<std::string> names;
  double lr = 0;  ///< until the schedule sets all eight; groups without a factor start at the transformer's rate
  double weight_decay = 0;
};

/// What each group is called in logs, in order.
inline constexpr std::array<std::string_view, 8> group_names{
    "transformer_top", "transformer_top_no_decay", "transformer", "transformer_no_decay",
    "cnn_top",         "cnn_top_no_decay",         "cnn",         "cnn_no_decay"};

/// transformer {top, rest} x {decay, no decay}, then cnn likewise, each in the order of `params`; some may be empty.
/// "Top" are names that hold transformer_lr_mul_prefix or cnn_lr_mul_prefix; no decay: bias, LayerNorm.
/// throws  usage_error if a trainable name belongs to neither side, so that nothing stays untrained unnoticed
[[nodiscard]] std::array<ParamGroup, 8> eight_groups(std::span<const NamedParam> params, const config::Config& config);

}  // namespace clipbert::train
