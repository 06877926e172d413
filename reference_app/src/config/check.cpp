#include "config/check.hpp"

#include <utility>

#include "config/codec.hpp"

namespace clipbert::config::detail {
namespace {

/// "opt_level O1", or what made it so.
std::string level_words(const Config& config) {
  if (config.opt_level) return "opt_level " + *config.opt_level;
  return "opt_level " + level_of(config) + " (from fp16 " + (config.fp16 ? "1" : "0") + ")";
}

void check_precision(const Config& config, Faults& faults) {
  const auto level = level_of(config);
  const bool model_is_low = level == "O2" || level == "O3";
  const auto contradicts = [&](const std::string& key, const std::string& value, const std::string& why) {
    faults.add(key, value + " contradicts " + level_words(config) + ": " + why);
  };
  if (config.keep_batchnorm_fp32 && level == "O1")
    contradicts("keep_batchnorm_fp32", *config.keep_batchnorm_fp32 ? "true" : "false",
                "O1 keeps all weights in fp32 and casts per operation; leave the key out or take O2");
  if (config.keep_batchnorm_fp32 == false && level == "O0")
    contradicts("keep_batchnorm_fp32", "false", "all of an O0 model is fp32; leave the key out or take O2");
  if (config.master_weights && *config.master_weights != "fp32" && !model_is_low)
    contradicts("master_weights", *config.master_weights,
                "the weights themselves are fp32; leave the key out or take O2");
  if (config.master_weights == "remainder" && config.amp_dtype == "fp16")
    faults.add("master_weights", "remainder contradicts amp_dtype fp16: only bf16 is the upper half of fp32");
  if (config.optimizer_state == "fp8" && config.master_weights == "none")
    faults.add("optimizer_state", "fp8 contradicts master_weights none: nothing exact would be left");
  if (config.fp8_recipe != "none") {
    if (level == "O0") contradicts("fp8_recipe", config.fp8_recipe, "fp8 products need a bf16 level; take O1 or O2");
    if (config.amp_dtype == "fp16")
      faults.add("fp8_recipe", config.fp8_recipe + " contradicts amp_dtype fp16: it needs amp_dtype bf16");
  }
  if (config.min_loss_scale > config.max_loss_scale)
    faults.add("min_loss_scale",
               number_text(config.min_loss_scale) + " is above max_loss_scale " + number_text(config.max_loss_scale));
  else if (config.scale_init < config.min_loss_scale || config.scale_init > config.max_loss_scale)
    faults.add("scale_init", number_text(config.scale_init) + " is outside min_loss_scale " +
                                 number_text(config.min_loss_scale) + " and max_loss_scale " +
                                 number_text(config.max_loss_scale));
}

void check_loss_and_schedule(const Config& config, Faults& faults) {
  if (config.loss_type == "rank" && config.score_agg_func == "lse")
    faults.add("score_agg_func", "lse contradicts loss_type rank: lse needs the two classes of ce; take mean or max");
  if (config.loss_type == "rank" && config.itm_neg_size == 0)
    faults.add("itm_neg_size", "0 contradicts loss_type rank: ranking needs a negative");
  if (config.itm_hard_neg > config.itm_neg_size)
    faults.add("itm_hard_neg",
               std::to_string(config.itm_hard_neg) + " is above itm_neg_size " + std::to_string(config.itm_neg_size));
  if (config.decay == "multi_step" && config.step_decay_epochs.empty())
    faults.add("decay", "multi_step needs step_decay_epochs");
  if (config.cnn_lr_decay == "multi_step" && config.cnn_step_decay_epochs.empty())
    faults.add("cnn_lr_decay", "multi_step needs cnn_step_decay_epochs");
}

}  // namespace

std::string level_of(const Config& config) { return config.opt_level.value_or(config.fp16 ? "O2" : "O0"); }

void check_model(const ModelConfig& model, const std::string& path, Faults& faults) {
  if (model.num_attention_heads > 0 && model.hidden_size % model.num_attention_heads != 0)
    faults.add(path.empty() ? "hidden_size" : path + ".hidden_size", std::to_string(model.hidden_size) +
                                                                         " is not a multiple of num_attention_heads " +
                                                                         std::to_string(model.num_attention_heads));
  if (model.pad_token_id >= model.vocab_size)
    faults.add(path.empty() ? "pad_token_id" : path + ".pad_token_id",
               std::to_string(model.pad_token_id) + " is not below vocab_size " + std::to_string(model.vocab_size));
}

void check_contradictions(const Config& config, Faults& faults) {
  check_precision(config, faults);
  check_loss_and_schedule(config, faults);
  if (const auto* model = std::get_if<ModelConfig>(&config.model_config)) check_model(*model, "model_config", faults);
}

std::vector<std::string> idle_keys(const Config& config) {
  std::vector<std::string> lines;
  std::string recorded;
  const auto record = [&](const std::string& text) { recorded += (recorded.empty() ? "" : ", ") + text; };
  if (config.classifier != "mlp") record("classifier " + config.classifier);
  if (config.cls_hidden_scale != 2) record("cls_hidden_scale " + std::to_string(config.cls_hidden_scale));
  if (is_given(config, "cnn_optim") && config.cnn_optim != config.optim) record("cnn_optim " + config.cnn_optim);
  if (config.cnn_sgd_momentum != 0.9) record("cnn_sgd_momentum " + number_text(config.cnn_sgd_momentum));
  if (!recorded.empty()) lines.push_back("recorded but without effect, as in the original: " + recorded);
  for (const auto& [key, kind] : {std::pair{"decay", &config.decay}, {"cnn_lr_decay", &config.cnn_lr_decay}})
    if (*kind == "invsqrt" && config.warmup_ratio == 0.0)
      lines.push_back(std::string(key) + " invsqrt with warmup_ratio 0 keeps the rate at 1e-8, as in the original");
  if (!config.step_decay_epochs.empty() && config.decay != "multi_step")
    lines.push_back("step_decay_epochs has no effect: decay is " + config.decay);
  if (!config.cnn_step_decay_epochs.empty() && config.cnn_lr_decay != "multi_step")
    lines.push_back("cnn_step_decay_epochs has no effect: cnn_lr_decay is " + config.cnn_lr_decay);
  return lines;
}

}  // namespace clipbert::config::detail
