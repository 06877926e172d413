/// The settings of a run: one field per key. The defaults stand here; ranges and help stand in keys.cpp.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace clipbert::config {

/// The trunk (`cnn`): a ResNet of bottlenecks; the defaults are ResNet-50 as ClipBERT uses it.
struct CnnConfig {
  std::vector<std::int64_t> depths{3, 4, 6, 3};  ///< bottlenecks of res2, res3, ...
  std::int64_t stem_width = 64;                  ///< channels of the stem
  std::int64_t bottleneck_width = 64;            ///< inner channels of res2; twice as many each stage
  std::int64_t out_width = 256;                  ///< output channels of res2; twice as many each stage
  bool stride_in_1x1 = true;                     ///< the stride sits on the first 1x1 convolution of a stage
  std::string norm = "frozen_bn";                ///< frozen_bn or bn
  double norm_eps = 1e-5;
  std::int64_t freeze_at = 2;  ///< 0: nothing is frozen, 1: the stem, 2: the stem and res2, ...

  friend bool operator==(const CnnConfig&, const CnnConfig&) = default;
};

/// The transformer (`model_config`); the defaults are BERT base with ClipBERT's grid embeddings.
struct ModelConfig {
  std::int64_t hidden_size = 768;
  std::int64_t num_hidden_layers = 12;
  std::int64_t num_attention_heads = 12;
  std::int64_t intermediate_size = 3072;
  std::int64_t vocab_size = 30522;
  std::int64_t max_position_embeddings = 512;
  std::int64_t type_vocab_size = 2;
  std::int64_t max_grid_row_position_embeddings = 100;
  std::int64_t max_grid_col_position_embeddings = 100;
  std::int64_t max_temporal_position_embeddings = 100;  ///< recorded; the original never reads it
  std::int64_t backbone_channel_in_size = 2048;         ///< recorded; the trunk's output width decides
  std::int64_t pad_token_id = 0;
  std::int64_t num_labels = 0;  ///< 0: by loss_type (ce 2, rank 1); model_config() fills it in
  double layer_norm_eps = 1e-12;
  double hidden_dropout_prob = 0.1;
  double attention_probs_dropout_prob = 0.1;
  double initializer_range = 0.02;
  std::string hidden_act = "gelu";
  std::string model_type = "bert";

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

/// One entry of train_datasets or val_datasets.
struct DatasetConfig {
  std::string name;
  std::string txt;  ///< caption file, JSON lines
  std::string img;  ///< LMDB directory or folder of video files

  friend bool operator==(const DatasetConfig&, const DatasetConfig&) = default;
};

/// `loss_scale`: "dynamic" or a number.
struct LossScale {
  bool dynamic = true;
  double value = 1.0;  ///< counts where `dynamic` is false

  friend bool operator==(const LossScale&, const LossScale&) = default;
};

/// `inference_model_step`: the step of a checkpoint, or "best".
struct ModelStep {
  bool best = false;
  std::int64_t step = -1;  ///< -1: the newest

  friend bool operator==(const ModelStep&, const ModelStep&) = default;
};

/// A path, or the settings themselves; neither: BERT base.
using ModelSource = std::variant<std::monostate, std::string, ModelConfig>;

/// Who set a key. A key that stands in no file and no flag has its default.
enum class Source { file, flag };

/// All settings. Sizes are counts, rates are per optimizer step, paths are text as given until check_paths().
struct Config {
  // data
  std::vector<DatasetConfig> train_datasets, val_datasets;
  std::optional<std::string> tokenizer_dir;
  std::optional<std::string> output_dir;
  std::int64_t max_txt_len = 20;
  std::int64_t max_img_size = 448;
  std::vector<double> img_pixel_mean{123.675, 116.28, 103.53}, img_pixel_std{1.0, 1.0, 1.0};
  std::string img_input_format = "BGR";
  std::int64_t max_n_example_per_group = 2;
  std::int64_t itm_neg_size = 1, itm_hard_neg = 0;
  double data_ratio = 1.0;
  double max_bad_videos = 0.05;
  std::int64_t n_workers = 4;
  bool pin_mem = true;
  std::int64_t video_cache_mb = 1024;
  // frames and clips
  std::int64_t fps = 1;
  std::int64_t num_frm = 3;
  std::string frm_sampling_strategy = "rand";
  std::int64_t train_n_clips = 3, inference_n_clips = 1;
  std::string score_agg_func = "mean";
  bool random_sample_clips = true;
  // model
  ModelSource model_config;
  CnnConfig cnn;
  std::optional<std::string> detectron2_model_cfg;
  std::optional<std::string> e2e_weights_path, detectron2_weights_path, bert_weights_path;
  double min_weights_matched = 0.9;
  double dropout = 0.1;
  bool freeze_cnn = false;
  std::string classifier = "mlp";
  std::int64_t cls_hidden_scale = 2;
  // training
  std::int64_t train_batch_size = 128, val_batch_size = 128;
  std::int64_t gradient_accumulation_steps = 1;
  double num_train_epochs = 10.0;
  std::int64_t max_train_steps = 0;
  std::int64_t num_valid = 20, min_valid_steps = 100;
  double save_steps_ratio = 0.01;
  std::string loss_type = "ce";
  double margin = 0.2;
  std::int64_t seed = 42;
  bool original_init_step = false;
  std::string accumulate = "sum";
  bool clip_recompute = false;
  // optimizer
  std::string optim = "adamw", cnn_optim = "adamw";
  std::vector<double> betas{0.9, 0.98};
  double learning_rate = 5e-5, cnn_learning_rate = 5e-5;
  double weight_decay = 1e-3, cnn_weight_decay = 1e-3;
  double cnn_sgd_momentum = 0.9;
  std::string decay = "linear", cnn_lr_decay = "linear";
  double warmup_ratio = 0.1;
  std::vector<std::int64_t> step_decay_epochs, cnn_step_decay_epochs;
  double transformer_lr_mul = 1.0, cnn_lr_mul = 1.0;
  std::string transformer_lr_mul_prefix, cnn_lr_mul_prefix = "grid_encoder";
  double grad_norm = 2.0;  ///< -1: off
  // precision: what is unset depends on others, see effective()
  bool fp16 = false;
  std::optional<std::string> opt_level;  ///< O0 O1 O2 O3
  std::string fp8_recipe = "none";
  std::optional<std::string> amp_dtype;  ///< fp16 bf16
  std::optional<LossScale> loss_scale;
  std::optional<bool> keep_batchnorm_fp32;
  std::string scaler = "apex";
  double scale_init = 65536.0;
  std::int64_t scale_window = 2000;
  double min_loss_scale = 0x1p-24, max_loss_scale = 0x1p24;
  std::int64_t hysteresis = 1;
  std::int64_t max_consecutive_skips = 50;
  std::optional<std::string> master_weights;  ///< fp32 remainder kahan stochastic none
  std::string optimizer_state = "fp32";
  std::string frozen_norm_dtype = "fp32";
  // run
  std::optional<std::string> device;  ///< cpu cuda cuda:N
  std::int64_t num_threads = 0;       ///< 0: CLIPBERT_NUM_THREADS, else all cores
  std::string resume = "auto";
  std::int64_t keep_checkpoints = 3;
  std::string best_metric = "text2video_r1";
  bool dry_run = false, profile = false, debug = false;
  std::int64_t inject_nan_every = 0;
  // inference
  bool do_inference = false;
  std::string inference_split = "val";
  ModelStep inference_model_step;
  std::optional<std::string> inference_txt_db, inference_img_db;
  std::int64_t inference_batch_size = 64, eval_retrieval_batch_size = 256;

  std::map<std::string, Source, std::less<>> given;  ///< keys that the file or a flag set
  std::string folder;                                ///< of the config file, empty without one
};

/// True if the file or a flag set `key`.
[[nodiscard]] inline bool is_given(const Config& config, const std::string& key) { return config.given.contains(key); }

}  // namespace clipbert::config
