// The tables: the one place where a key's name, range and help stand.
#include <array>

#include "config/codec.hpp"
#include "config/table.hpp"

namespace clipbert::config {
namespace {

using detail::make_key;

const Rule positive{.low = 0, .above_low = true};
const Rule not_negative{.low = 0};
const Rule share{.low = 0, .high = 1};
const Rule count{.low = 1};
const Rule count_or_off{.low = 0};

Rule one_of(std::vector<std::string_view> choices) { return {.choices = std::move(choices)}; }
Rule level_names() { return {.choices = {"O0", "O1", "O2", "O3"}, .any_case = true}; }

std::vector<Key<Config>> config_keys() {
  using C = Config;
  const auto file = PathKind::file, folder = PathKind::folder, any = PathKind::any;
  std::vector<Key<Config>> keys;
  std::string_view section;
  const auto add = [&](auto member, std::string_view name, std::string_view help, Rule rule = {},
                       std::string_view fallback = {}, PathKind path = PathKind::none) {
    keys.push_back(make_key(member, name, section, help, std::move(rule), fallback, path));
  };

  section = "data";
  add(&C::train_datasets, "train_datasets",
      "training sets: [{name, txt: caption file, img: LMDB or folder of videos}]");
  add(&C::val_datasets, "val_datasets", "validation sets, of the same form");
  add(&C::tokenizer_dir, "tokenizer_dir", "folder that holds vocab.txt", {}, "none", folder);
  add(&C::output_dir, "output_dir", "folder for checkpoints, states and logs", {}, "none");
  add(&C::max_txt_len, "max_txt_len", "tokens of a caption, [CLS] and [SEP] included", {.low = 2});
  add(&C::max_img_size, "max_img_size", "pixels of the longer side; the shorter is padded with zeros",
      {.low = 64, .high = 16384});
  add(&C::img_pixel_mean, "img_pixel_mean", "mean of R, G, B that is subtracted", {.least = 3, .most = 3});
  add(&C::img_pixel_std, "img_pixel_std", "R, G, B are divided by it",
      {.low = 0, .above_low = true, .least = 3, .most = 3});
  add(&C::img_input_format, "img_input_format", "channel order inside the trunk", one_of({"BGR"}));
  add(&C::max_n_example_per_group, "max_n_example_per_group", "captions of one video that share its features", count);
  add(&C::itm_neg_size, "itm_neg_size", "negative captions for each positive", count_or_off);
  add(&C::itm_hard_neg, "itm_hard_neg", "how many of them are hard: close to the positive by shared words",
      count_or_off);
  add(&C::data_ratio, "data_ratio", "share of the examples that is used", {.low = 0, .high = 1, .above_low = true});
  add(&C::max_bad_videos, "max_bad_videos", "share of the set that may be unreadable before the run ends with code 3",
      share);
  add(&C::n_workers, "n_workers", "threads that decode videos; 0: decode in the training thread",
      {.low = 0, .high = 1024});
  add(&C::pin_mem, "pin_mem", "page-locked batches for a device");
  add(&C::video_cache_mb, "video_cache_mb", "MiB of decoded frames kept in memory; 0: none", count_or_off);

  section = "frames and clips";
  add(&C::fps, "fps", "frames per second that are looked at", count);
  add(&C::num_frm, "num_frm", "frames of a clip", count);
  add(&C::frm_sampling_strategy, "frm_sampling_strategy", "which frames of a clip when there is one clip",
      one_of({"rand", "uniform", "start", "middle", "end"}));
  add(&C::train_n_clips, "train_n_clips", "clips of a video in training", count);
  add(&C::inference_n_clips, "inference_n_clips", "clips of a video in evaluation and search", count);
  add(&C::score_agg_func, "score_agg_func", "how the clips' scores become one; lse: log-sum-exp",
      one_of({"lse", "mean", "max"}));
  add(&C::random_sample_clips, "random_sample_clips", "training clips at random places, else evenly spread");

  section = "model";
  add(&C::model_config, "model_config", "path of the transformer's JSON, or the object itself", {}, "BERT base", file);
  add(&C::cnn, "cnn", "the trunk; its keys stand at the end");
  add(&C::detectron2_model_cfg, "detectron2_model_cfg", "recorded, not read", {}, "none");
  add(&C::e2e_weights_path, "e2e_weights_path", "weights of the whole model to start from", {}, "none", file);
  add(&C::detectron2_weights_path, "detectron2_weights_path", "weights of the trunk to start from", {}, "none", file);
  add(&C::bert_weights_path, "bert_weights_path", "weights of the transformer to start from", {}, "none", file);
  add(&C::min_weights_matched, "min_weights_matched",
      "share of the model's tensors that a weights file must hold; 0 takes any", share);
  add(&C::dropout, "dropout", "as a flag it sets both dropouts of the transformer",
      {.low = 0, .high = 1, .below_high = true});
  add(&C::freeze_cnn, "freeze_cnn", "1: cnn.feature.* does not train");
  add(&C::classifier, "classifier", "recorded; the head is a two-layer MLP", one_of({"mlp", "linear"}));
  add(&C::cls_hidden_scale, "cls_hidden_scale", "recorded; the head is 2 times as wide inside", count);

  section = "training";
  add(&C::train_batch_size, "train_batch_size", "videos of a micro batch, per process", count);
  add(&C::val_batch_size, "val_batch_size", "videos of a validation batch, per process", count);
  add(&C::gradient_accumulation_steps, "gradient_accumulation_steps", "micro batches of one optimizer step", count);
  add(&C::num_train_epochs, "num_train_epochs", "epochs; parts of one count", positive);
  add(&C::max_train_steps, "max_train_steps", "optimizer steps instead of num_train_epochs; 0: off", count_or_off);
  add(&C::num_valid, "num_valid", "validations of a run, as far as min_valid_steps allows", count);
  add(&C::min_valid_steps, "min_valid_steps", "least optimizer steps between two validations", count);
  add(&C::save_steps_ratio, "save_steps_ratio", "share of all steps between two restore states",
      {.low = 0, .high = 1, .above_low = true});
  add(&C::loss_type, "loss_type", "ce: cross entropy, rank: margin ranking", one_of({"ce", "rank"}));
  add(&C::margin, "margin", "margin of the rank loss, in probability", not_negative);
  add(&C::seed, "seed", "of weights, order, frames and dropout", {.low = 0, .any_size = true});
  add(&C::accumulate, "accumulate", "gradients of the micro batches are summed, as in the original, or averaged",
      one_of({"sum", "mean"}));
  add(&C::original_init_step, "original_init_step", "1: takes the original's zero-gradient step first");
  add(&C::clip_recompute, "clip_recompute",
      "1: keeps the graph of one clip at a time; same result, memory of one clip");

  section = "optimizer";
  add(&C::optim, "optim", "optimizer", one_of({"adamw", "adam", "adamax"}));
  add(&C::betas, "betas", "decay of Adam's first and second moment",
      {.low = 0, .high = 1, .below_high = true, .least = 2, .most = 2});
  add(&C::learning_rate, "learning_rate", "peak rate of the transformer", not_negative);
  add(&C::cnn_learning_rate, "cnn_learning_rate", "peak rate of the cnn", not_negative);
  add(&C::weight_decay, "weight_decay", "of the transformer's weights; biases and LayerNorm have none", not_negative);
  add(&C::cnn_weight_decay, "cnn_weight_decay", "of the cnn's weights", not_negative);
  add(&C::decay, "decay", "schedule of the transformer", one_of({"linear", "invsqrt", "constant", "multi_step"}));
  add(&C::cnn_lr_decay, "cnn_lr_decay", "schedule of the cnn", one_of({"linear", "invsqrt", "constant", "multi_step"}));
  add(&C::warmup_ratio, "warmup_ratio", "share of all steps in which the rate rises (linear, invsqrt)", share);
  add(&C::step_decay_epochs, "step_decay_epochs", "epochs at which decay multi_step halves the rate", not_negative);
  add(&C::cnn_step_decay_epochs, "cnn_step_decay_epochs", "epochs at which cnn_lr_decay multi_step halves the rate",
      not_negative);
  add(&C::transformer_lr_mul, "transformer_lr_mul", "factor of the rate where the prefix matches", not_negative);
  add(&C::transformer_lr_mul_prefix, "transformer_lr_mul_prefix", "part of a parameter's name; empty: none");
  add(&C::cnn_lr_mul, "cnn_lr_mul", "factor of the rate where the prefix matches", not_negative);
  add(&C::cnn_lr_mul_prefix, "cnn_lr_mul_prefix", "part of a parameter's name; empty: none");
  add(&C::grad_norm, "grad_norm", "the norm to which gradients are clipped; -1: off",
      {.low = 0, .above_low = true, .also = -1});
  add(&C::cnn_optim, "cnn_optim", "recorded; optim serves the cnn too", one_of({"adamw", "adam", "adamax", "sgd"}));
  add(&C::cnn_sgd_momentum, "cnn_sgd_momentum", "recorded, not used", share);

  section = "precision";
  add(&C::fp16, "fp16", "1: mixed precision, as opt_level O2");
  add(&C::opt_level, "opt_level", "O0 fp32, O1 casts per operation, O2 low-precision model with masters, O3 all low",
      level_names(), "O2 if fp16 is 1, else O0");
  add(&C::amp_dtype, "amp_dtype", "the low-precision format", one_of({"fp16", "bf16"}),
      "fp16 on CUDA, bf16 on the CPU");
  add(&C::loss_scale, "loss_scale", "factor of the loss before the backward pass", {},
      "dynamic for fp16, 1 for bf16 and O0");
  add(&C::keep_batchnorm_fp32, "keep_batchnorm_fp32", "BatchNorm stays fp32 (O2, O3)", {}, "true at O2, false at O3");
  add(&C::fp8_recipe, "fp8_recipe", "fp8 operands of matrix products, at a bf16 level",
      one_of({"none", "delayed", "current", "block", "mxfp8"}));
  add(&C::scaler, "scaler", "rules of the dynamic loss scale", one_of({"apex", "torch", "hysteresis"}));
  add(&C::scale_init, "scale_init", "first dynamic loss scale", positive);
  add(&C::scale_window, "scale_window", "clean steps before the scale doubles", count);
  add(&C::min_loss_scale, "min_loss_scale", "floor of the dynamic scale", positive);
  add(&C::max_loss_scale, "max_loss_scale", "ceiling of the dynamic scale", positive);
  add(&C::hysteresis, "hysteresis", "overflows in a row before the scale halves (scaler hysteresis)", count);
  add(&C::max_consecutive_skips, "max_consecutive_skips", "skipped steps in a row before the run ends with code 4",
      count);
  add(&C::master_weights, "master_weights", "how the exact weights behind low-precision ones are kept",
      one_of({"fp32", "remainder", "kahan", "stochastic", "none"}), "fp32, none at O3");
  add(&C::optimizer_state, "optimizer_state", "format of the moments", one_of({"fp32", "bf16", "fp16", "fp8"}));
  add(&C::frozen_norm_dtype, "frozen_norm_dtype", "format of FrozenBN's buffers; model: as the weights",
      one_of({"fp32", "model"}));

  section = "run";
  add(&C::device, "device", "where to compute", {.device = true}, "cuda if present, else cpu");
  add(&C::num_threads, "num_threads", "compute threads; 0: CLIPBERT_NUM_THREADS, else all cores",
      {.low = 0, .high = 4096});
  add(&C::resume, "resume", "auto, never, required, or the path of a state");
  add(&C::keep_checkpoints, "keep_checkpoints", "newest checkpoints that are kept, besides the best", count);
  add(&C::best_metric, "best_metric", "the validation metric that decides which checkpoint is best");
  add(&C::dry_run, "dry_run", "1: checks everything, prints the effective settings, ends");
  add(&C::profile, "profile", "recorded; the parts of a step are timed in every run");
  add(&C::inject_nan_every, "inject_nan_every",
      "writes a NaN gradient each so many steps, to try overflow handling; 0: off", count_or_off);
  add(&C::debug, "debug", "1: ends after 3 steps and measures the loss on 6 validation batches, to try things out");

  section = "inference";
  add(&C::do_inference, "do_inference", "1: an evaluation run");
  add(&C::inference_split, "inference_split", "recorded; name of the split");
  add(&C::inference_model_step, "inference_model_step", "checkpoint to evaluate");
  add(&C::inference_txt_db, "inference_txt_db", "caption file to evaluate", {}, "none", file);
  add(&C::inference_img_db, "inference_img_db", "LMDB or folder of videos to evaluate", {}, "none", any);
  add(&C::inference_batch_size, "inference_batch_size", "videos of a batch", count);
  add(&C::eval_retrieval_batch_size, "eval_retrieval_batch_size", "captions scored against one video at a time", count);
  return keys;
}

std::vector<Key<ModelConfig>> model_keys() {
  using M = ModelConfig;
  const Rule dropout{.low = 0, .high = 1, .below_high = true};
  std::vector<Key<ModelConfig>> keys;
  const auto add = [&](auto member, std::string_view name, std::string_view help, Rule rule = count) {
    keys.push_back(make_key(member, name, "model_config", help, std::move(rule)));
  };
  add(&M::hidden_size, "hidden_size", "width");
  add(&M::num_hidden_layers, "num_hidden_layers", "layers");
  add(&M::num_attention_heads, "num_attention_heads", "heads; divides hidden_size");
  add(&M::intermediate_size, "intermediate_size", "width inside the feed-forward part");
  add(&M::vocab_size, "vocab_size", "tokens of the vocabulary");
  add(&M::max_position_embeddings, "max_position_embeddings", "longest text in tokens");
  add(&M::type_vocab_size, "type_vocab_size", "token types: text, video", {.low = 2});
  add(&M::max_grid_row_position_embeddings, "max_grid_row_position_embeddings", "rows of the grid at most");
  add(&M::max_grid_col_position_embeddings, "max_grid_col_position_embeddings", "columns of the grid at most");
  add(&M::max_temporal_position_embeddings, "max_temporal_position_embeddings", "recorded, not used");
  add(&M::backbone_channel_in_size, "backbone_channel_in_size", "recorded, not used");
  add(&M::pad_token_id, "pad_token_id", "id of [PAD]", not_negative);
  add(&M::num_labels, "num_labels", "outputs of the head; 0: by loss_type", {.low = 0, .high = 2});
  add(&M::layer_norm_eps, "layer_norm_eps", "added to the variance", positive);
  add(&M::hidden_dropout_prob, "hidden_dropout_prob", "dropout of embeddings and sublayers", dropout);
  add(&M::attention_probs_dropout_prob, "attention_probs_dropout_prob", "dropout of attention weights", dropout);
  add(&M::initializer_range, "initializer_range", "standard deviation of new weights", not_negative);
  add(&M::hidden_act, "hidden_act", "activation", one_of({"gelu"}));
  add(&M::model_type, "model_type", "recorded", one_of({"bert"}));
  return keys;
}

std::vector<Key<CnnConfig>> cnn_keys() {
  using N = CnnConfig;
  std::vector<Key<CnnConfig>> keys;
  const auto add = [&](auto member, std::string_view name, std::string_view help, Rule rule = {}) {
    keys.push_back(make_key(member, name, "cnn", help, std::move(rule)));
  };
  add(&N::depths, "depths", "bottlenecks of res2 to res5", {.low = 1, .least = 4, .most = 4});
  add(&N::stem_width, "stem_width", "channels of the stem", count);
  add(&N::bottleneck_width, "bottleneck_width", "inner channels of res2", count);
  add(&N::out_width, "out_width", "output channels of res2", count);
  add(&N::stride_in_1x1, "stride_in_1x1", "the stride sits on the first 1x1 convolution");
  add(&N::norm, "norm", "frozen_bn: fixed statistics, bn: trains", one_of({"frozen_bn", "bn"}));
  add(&N::norm_eps, "norm_eps", "added to the variance", positive);
  add(&N::freeze_at, "freeze_at", "0: nothing is frozen, 1: the stem, 2: the stem and res2, ...",
      {.low = 0, .high = 5});
  return keys;
}

std::vector<Key<DatasetConfig>> dataset_keys() {
  using D = DatasetConfig;
  std::vector<Key<DatasetConfig>> keys{
      make_key(&D::name, "name", "dataset", "name for the log"),
      make_key(&D::txt, "txt", "dataset", "caption file, JSON lines", {}, {}, PathKind::file),
      make_key(&D::img, "img", "dataset", "LMDB directory or folder of videos", {}, {}, PathKind::folder)};
  keys[1].required = keys[2].required = true;
  return keys;
}

}  // namespace

template <>
std::span<const Key<Config>> keys() {
  static const auto table = config_keys();
  return table;
}
template <>
std::span<const Key<ModelConfig>> keys() {
  static const auto table = model_keys();
  return table;
}
template <>
std::span<const Key<CnnConfig>> keys() {
  static const auto table = cnn_keys();
  return table;
}
template <>
std::span<const Key<DatasetConfig>> keys() {
  static const auto table = dataset_keys();
  return table;
}

}  // namespace clipbert::config
