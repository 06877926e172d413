#include "train/precision.hpp"

#include <torch/torch.h>

#include <amp/session/choices.hpp>
#include <amp_torch/state_dict.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "config/errors.hpp"
#include "model/clipbert.hpp"
#include "train/precision_session.hpp"
#include "train/trainer.hpp"

namespace clipbert::train {
namespace {

/// The original's start, for the one optimizer that has it: gradients are zero, so only the decay acts and each
/// counter stands at 1 afterwards.
/// source  Horovod 0.19 broadcast_optimizer_state
void decay_once(const std::map<std::string, at::Tensor>& tensors, std::span<const ParamGroup> groups) {
  const torch::NoGradGuard no_grad;
  for (const ParamGroup& group : groups) {
    if (group.weight_decay <= 0) continue;
    for (const std::string& name : group.names) {
      tensors.at(name).add_(tensors.at(name), -group.lr * group.weight_decay);
    }
  }
}

detail::Scale scale_of(const config::Config& c, const amp::OptLevel& level) {
  const bool by_level = level.scale == amp::scaling::dynamic;
  const config::LossScale setting = c.loss_scale.value_or(config::LossScale{.dynamic = by_level, .value = 1.0});
  if (!setting.dynamic)
    return {.policy = amp::scale_policy({.dynamic = false, .value = static_cast<float>(setting.value)})};
  const auto init = static_cast<float>(c.scale_init);
  const auto low = static_cast<float>(c.min_loss_scale), high = static_cast<float>(c.max_loss_scale);
  if (c.scaler == "apex")
    return {.policy = amp::DynamicScale{.init = init, .window = c.scale_window, .max = high, .min = low}};
  if (c.scaler == "torch")
    return {.policy = amp::TorchScale{.init = init, .interval = c.scale_window}, .min = low, .max = high};
  if (c.scaler == "hysteresis")
    return {.policy = amp::HysteresisScale{.init = init, .interval = c.scale_window, .hysteresis = c.hysteresis},
            .min = low,
            .max = high};
  throw usage_error("scaler \"" + c.scaler + "\" is not known; use apex, torch or hysteresis");
}

bool is_frozen_norm(const torch::nn::Module& m) { return dynamic_cast<const model::FrozenBatchNorm*>(&m) != nullptr; }

/// How masters and moments are kept.
amp::storage_options storage_of(const config::Config& c, const amp::OptLevel& level) {
  return {.masters = amp::parse_masters(c.master_weights.value_or(level.master_weights ? "fp32" : "none")),
          .moments = amp::parse_moments(c.optimizer_state == "fp8" ? "e4m3" : c.optimizer_state),
          .seed = static_cast<std::uint64_t>(c.seed)};
}

/// The level that the settings ask for.
amp::OptLevel level_of(const config::Config& c) {
  const amp::OptLevel level = amp::parse_opt_level(c.opt_level.value_or(c.fp16 ? "O2" : "O0"));
  const std::string type = c.amp_dtype.value_or("bf16");
  if (c.fp8_recipe != "none" && (level.cast == amp::casting::none || type != "bf16"))
    throw usage_error("fp8_recipe " + c.fp8_recipe + " needs a bf16 level; use opt_level O1 or O2 and amp_dtype bf16");
  if (level.cast == amp::casting::none) return level;
  if (type != "fp16" && type != "bf16") throw usage_error("amp_dtype " + type + " is not known; use fp16 or bf16");
  amp::opt_level_overrides overrides{.compute = type == "fp16" ? amp::dtype::fp16 : amp::dtype::bf16};
  if (level.cast == amp::casting::model) {
    overrides.keep_batchnorm_fp32 = c.keep_batchnorm_fp32;
    overrides.master_weights = storage_of(c, level).masters != amp::masters::none;
  }
  return amp::apply_overrides(level, overrides);
}

/// The named level with the same steps: whether norms are kept was settled by the cast before.
amp::OptLevel named_level(const amp::OptLevel& level) {
  return level.cast == amp::casting::model ? level.with_fp32_norms(level.master_weights) : level;
}

}  // namespace

std::unique_ptr<Precision> make_precision(model::ClipBert& model, const TrainerSettings& settings,
                                          std::span<const ParamGroup> groups,
                                          std::function<void(std::string_view)> log) {
  try {
    const amp::OptLevel level = level_of(settings.config);
    amp_torch::detail::expect_fp32(model, amp::where::here());
    if (settings.config.original_init_step) {
      if (settings.config.optim != "adamw") {
        throw usage_error("original_init_step is the original's start of adamw, optim is " + settings.config.optim);
      }
      decay_once(amp_torch::named_tensors(model), groups);
    }
    const bool keep_frozen = settings.config.frozen_norm_dtype == "fp32";
    if (level.cast == amp::casting::model) {  // whether norms are kept is known at run time only
      amp_torch::cast_model(
          model, amp_torch::to_torch(level.compute),
          {.keep_batchnorm_fp32 = level.fp32_norms, .keep_fp32 = [&](const std::string&, const torch::nn::Module& m) {
             return keep_frozen && is_frozen_norm(m);
           }});
    }
    detail::SessionParts parts{
        model,  settings,      named_level(level), scale_of(settings.config, level), storage_of(settings.config, level),
        groups, std::move(log)};
    const std::string& optim = settings.config.optim;
    if (optim == "adamw") return detail::make_adamw(std::move(parts));
    if (optim == "adam") return detail::make_adam(std::move(parts));
    if (optim == "adamax") return detail::make_adamax(std::move(parts));
    throw usage_error("optim \"" + optim + "\" is not known; use adamw, adam or adamax");
  } catch (const amp::error& e) {
    throw usage_error(e.what());
  }
}

}  // namespace clipbert::train
