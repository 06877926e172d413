#include "cli/run_head.hpp"

#include <torch/torch.h>

#include <amp/simd/target.hpp>
#include <cmath>
#include <sstream>

#include "cli/info.hpp"
#include "cli/table.hpp"
#include "model/clipbert.hpp"
#include "train/param_groups.hpp"

namespace clipbert::cli {
namespace {

std::string version_line() {
  std::ostringstream text;
  print_version(text);
  std::string line = text.str();
  line.pop_back();
  return line;
}

std::string machine_line(const Settings& settings) {
  return settings.devices.cpu + "; kernels " + std::string(amp::simd::name(amp::simd::best_target())) + " (toolkit), " +
         at::get_cpu_capability() + " (LibTorch); " + std::to_string(settings.config.num_threads) + " threads, " +
         std::to_string(loader_threads(settings.config)) + " for decoding";
}

std::string data_line(const TrainingData& data) {
  return std::to_string(data.captions.records.size()) + " captions, " + std::to_string(data.set->videos().size()) +
         " videos, " + std::to_string(data.set->size()) + " groups";
}

std::string batch_line(const config::Config& c, const train::RunPlan& plan) {
  return std::to_string(c.train_batch_size) + " videos x " + std::to_string(c.max_n_example_per_group) +
         " captions x accumulation " + std::to_string(c.gradient_accumulation_steps) + " = " +
         std::to_string(plan.total_train_batch_size) + " examples a step, each with " + std::to_string(c.itm_neg_size) +
         " negatives";
}

std::string steps_line(const TrainingData& data) {
  const double epochs = static_cast<double>(data.plan.num_train_steps) *
                        static_cast<double>(data.plan.total_train_batch_size) /
                        static_cast<double>(data.plan.total_n_examples);
  return std::to_string(data.plan.num_train_steps) + " (" + fixed(epochs, 1) + " epochs), a state every " +
         std::to_string(data.save_steps);
}

std::string validation_line(const config::Config& c, const TrainingData& data) {
  if (data.validations.empty()) return "none (val_datasets is empty)";
  const Validation& first = *data.validations.front();
  return std::to_string(first.captions().records.size()) + " captions, " + std::to_string(first.videos().size()) +
         " videos, every " + std::to_string(data.plan.valid_steps) + " steps; best by " + c.best_metric;
}

/// The level, why it is this one, and what it makes of weights, norms and the loss.
std::string precision_line(const config::Config& c) {
  const std::string level = *c.opt_level, type = *c.amp_dtype;
  std::string line = level + (level == "O0" ? ", fp32 throughout" : ", " + type);
  if (level == "O2" || level == "O3") {
    line += std::string(", batch norm ") + (*c.keep_batchnorm_fp32 ? "fp32" : type) + ", " +
            (*c.master_weights == "none" ? "no master weights" : *c.master_weights + " master weights");
  }
  if (c.optimizer_state != "fp32") line += ", moments " + c.optimizer_state;
  if (c.fp8_recipe != "none") line += ", fp8 operands (" + c.fp8_recipe + ")";
  line += config::is_given(c, "opt_level") ? " (opt_level)"
          : config::is_given(c, "fp16")    ? " (from fp16)"
                                           : " (default)";
  return line + "; loss scale " +
         (c.loss_scale->dynamic ? c.scaler + ", starts at " + number(c.scale_init)
                                : "constant " + number(c.loss_scale->value));
}

}  // namespace

std::vector<std::string> run_head(const Settings& settings, const TrainingData& data) {
  const config::Config& c = settings.config;
  const std::string& none = settings.devices.why_no_cuda;
  return {version_line(),
          "machine      " + machine_line(settings),
          "devices      cpu" + (none.empty() ? std::string() : "; no CUDA: " + none),
          "data         " + data_line(data),
          "clips        " + std::to_string(c.train_n_clips) + " x " + std::to_string(c.num_frm) +
              " frames while training, " + std::to_string(c.inference_n_clips) + " while scoring; " + c.score_agg_func +
              ", " + c.loss_type,
          "batch        " + batch_line(c, data.plan),
          "steps        " + steps_line(data),
          "validation   " + validation_line(c, data),
          "precision    " + precision_line(c),
          "optimizer    " + c.optim + ", betas " + number(c.betas.at(0)) + " " + number(c.betas.at(1)) + ", warm-up " +
              number(100 * c.warmup_ratio) + " %, grad_norm " + (c.grad_norm < 0 ? "off" : number(c.grad_norm))};
}

std::int64_t all_elements(const model::ClipBert& model) {
  std::int64_t count = 0;
  for (const auto& [name, t] : model.named_tensors()) count += t.numel();
  return count;
}

std::vector<std::string> model_head(const model::ClipBert& model, const config::Config& c) {
  std::vector<train::NamedParam> names;
  std::map<std::string, std::int64_t> sizes;
  std::int64_t trained = 0, all = 0;
  for (const auto& p : model.named_parameters()) {
    names.push_back({p.key(), p.value().requires_grad()});
    sizes[p.key()] = p.value().numel();
    all += p.value().numel();
    trained += p.value().requires_grad() ? p.value().numel() : 0;
  }
  const auto groups = train::eight_groups(names, c);
  Table table({"group", "tensors", "parameters", "highest rate", "decay", "schedule"});
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].names.empty()) continue;
    const bool cnn = i >= 4, top = i % 4 < 2;
    const double base = cnn ? c.cnn_learning_rate : c.learning_rate, factor = cnn ? c.cnn_lr_mul : c.transformer_lr_mul;
    std::int64_t count = 0;
    for (const auto& name : groups[i].names) count += sizes.at(name);
    table.row({std::string(train::group_names[i]), std::to_string(groups[i].names.size()), grouped(count),
               number(top ? base * factor : base), number(groups[i].weight_decay), cnn ? c.cnn_lr_decay : c.decay});
  }
  std::vector<std::string> lines{"parameters   " + grouped(all) + " (" + grouped(trained) + " trainable), " +
                                 grouped(all_elements(model) - all) + " numbers in buffers"};
  std::istringstream text(table.text(2));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

}  // namespace clipbert::cli
