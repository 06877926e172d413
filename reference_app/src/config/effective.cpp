// What follows from other keys, from the machine, and from files that the settings name.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <system_error>
#include <thread>

#include "config/check.hpp"
#include "config/codec.hpp"
#include "config/errors.hpp"
#include "config/load.hpp"
#include "config/table.hpp"

namespace clipbert::config {
namespace {

namespace fs = std::filesystem;

/// Existing place of a path, or nothing.
std::optional<fs::path> locate(const std::string& value, const std::string& folder, bool current_first) {
  const fs::path path(value);
  std::error_code error;
  if (path.is_absolute()) return fs::exists(path, error) ? std::optional(path) : std::nullopt;
  const fs::path here = fs::current_path(error) / path;
  const fs::path beside = folder.empty() ? here : fs::path(folder) / path;
  for (const auto& candidate : {current_first ? here : beside, current_first ? beside : here})
    if (fs::exists(candidate, error)) return fs::absolute(candidate).lexically_normal();
  return std::nullopt;
}

void check_path(std::string& value, PathKind kind, const Config& config, const std::string& top, const std::string& at,
                Faults& faults) {
  if (value.empty()) return faults.add(at, "is empty; give a path, or null to unset it");
  const auto given = config.given.find(top);
  const bool from_flag = given != config.given.end() && given->second == Source::flag;
  const auto found = locate(value, config.folder, from_flag);
  std::error_code error;
  if (!found) {
    const auto place = fs::path(value).is_absolute() ? std::string() : " (" + fs::absolute(value).string() + ")";
    faults.add(at, "does not exist: " + value + place);
  } else if (kind == PathKind::folder && !fs::is_directory(*found, error)) {
    faults.add(at, "is not a folder: " + found->string());
  } else if (kind == PathKind::file && fs::is_directory(*found, error)) {
    faults.add(at, "is a folder, not a file: " + found->string());
  } else {
    value = found->string();
  }
}

void fill_precision(Config& config, bool on_cuda, std::vector<std::string>& notes) {
  const auto level = detail::level_of(config);
  if (config.opt_level && is_given(config, "fp16") && config.fp16 != (level != "O0"))
    notes.push_back("opt_level " + level + " beats fp16 " + (config.fp16 ? "1" : "0"));
  config.opt_level = level;
  if (!config.amp_dtype) {
    config.amp_dtype = on_cuda && config.fp8_recipe == "none" ? "fp16" : "bf16";
    if (level != "O0" && !on_cuda)
      notes.push_back(
          "amp_dtype bf16: on the CPU fp16 arithmetic is many times slower than fp32 (amp_dtype fp16 forces it)");
    else if (level != "O0" && config.fp8_recipe != "none")
      notes.push_back("amp_dtype bf16: fp8_recipe " + config.fp8_recipe + " needs it");
  }
  const bool scaled = level != "O0" && config.amp_dtype == "fp16";
  if (!config.loss_scale) {
    config.loss_scale = scaled ? LossScale{} : LossScale{.dynamic = false, .value = 1.0};
  } else if (scaled && *config.loss_scale == LossScale{.dynamic = false, .value = 1.0}) {
    notes.push_back("loss_scale 1 with fp16: small gradients become zero; dynamic is the usual choice");
  } else if (!scaled && *config.loss_scale != LossScale{.dynamic = false, .value = 1.0}) {
    notes.push_back("loss_scale is not needed: " + (level == "O0" ? std::string("O0") : "bf16") +
                    " has fp32's exponent range");
  }
  // O1 has no such choice, and a file that sets it there is refused: what is written down must be readable again
  if (!config.keep_batchnorm_fp32 && level != "O1") config.keep_batchnorm_fp32 = level != "O3";
  if (!config.master_weights) config.master_weights = level == "O3" ? "none" : "fp32";
}

void check_effective(const Config& config) {
  Faults faults;
  if (config.master_weights == "remainder" && config.amp_dtype != "bf16")
    faults.add("master_weights", "remainder contradicts amp_dtype " + *config.amp_dtype +
                                     ", the default on this device: only bf16 is the upper half of fp32");
  if (config.optimizer_state == "fp8" && config.master_weights == "none")
    faults.add("optimizer_state", "fp8 contradicts master_weights none: nothing exact would be left");
  faults.raise("config");
}

/// CLIPBERT_NUM_THREADS, else the cores that this process may use.
std::int64_t threads_by_machine() {
  const char* variable = std::getenv("CLIPBERT_NUM_THREADS");
  if (variable == nullptr || *variable == '\0') return std::max<std::int64_t>(1, std::thread::hardware_concurrency());
  double threads = 0;
  if (!detail::parse_number(variable, threads) || threads < 1 || threads > 4096 || threads != std::floor(threads))
    throw usage_error("CLIPBERT_NUM_THREADS is '" + std::string(variable) +
                      "'; it must be a whole number from 1 to 4096");
  return static_cast<std::int64_t>(threads);
}

}  // namespace

void check_paths(Config& config, std::span<const std::string> only) {
  const auto wanted = [&](std::string_view name) {
    return only.empty() || std::ranges::find(only, name) != only.end();
  };
  Faults faults;
  for (const auto& key : keys<Config>())
    if (auto* text = key.path != PathKind::none && wanted(key.name) ? key.text(config) : nullptr; text != nullptr)
      check_path(*text, key.path, config, std::string(key.name), std::string(key.name), faults);
  const auto sets = [&](const std::string& name, std::vector<DatasetConfig>& list) {
    if (!wanted(name)) return;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto at = name + "[" + std::to_string(i) + "]";
      check_path(list[i].txt, PathKind::file, config, name, at + ".txt", faults);
      check_path(list[i].img, PathKind::folder, config, name, at + ".img", faults);
    }
  };
  sets("train_datasets", config.train_datasets);
  sets("val_datasets", config.val_datasets);
  if (wanted("resume") && config.resume != "auto" && config.resume != "never" && config.resume != "required")
    check_path(config.resume, PathKind::any, config, "resume", "resume", faults);
  faults.raise("config");
}

ModelConfig model_config(const Config& config, std::vector<std::string>* warnings) {
  ModelConfig model;
  if (const auto* inlined = std::get_if<ModelConfig>(&config.model_config)) {
    model = *inlined;
  } else if (const auto* path = std::get_if<std::string>(&config.model_config)) {
    const auto place = locate(*path, config.folder, false);
    const auto document = read_json(place.value_or(*path));
    Faults faults(&document.lines);
    read_object(document.root, model, {}, faults);
    if (faults.all().empty()) detail::check_model(model, {}, faults);
    faults.raise(place.value_or(*path).string());
  }
  const std::int64_t labels = config.loss_type == "rank" ? 1 : 2;
  if (model.num_labels != 0 && model.num_labels != labels)
    throw usage_error("model_config: num_labels " + std::to_string(model.num_labels) + " contradicts loss_type " +
                      config.loss_type + ", which needs " + std::to_string(labels));
  model.num_labels = labels;
  const auto given = config.given.find("dropout");
  if (given == config.given.end()) return model;
  if (given->second == Source::flag)
    model.hidden_dropout_prob = model.attention_probs_dropout_prob = config.dropout;
  else if (warnings != nullptr && model.hidden_dropout_prob != config.dropout)
    warnings->push_back(
        "dropout in the file has no effect, as in the original: hidden_dropout_prob of model_config is " +
        detail::number_text(model.hidden_dropout_prob) + " (the flag --dropout sets it)");
  return model;
}

Effective effective(const Config& config, bool cuda_present) {
  Effective result{.config = config, .notes = {}};
  auto& out = result.config;
  if (!out.device) out.device = cuda_present ? "cuda" : "cpu";
  if (out.device->starts_with("cuda") && !cuda_present)
    throw usage_error("device " + *out.device + ": no CUDA device is present; take cpu");
  fill_precision(out, out.device->starts_with("cuda"), result.notes);
  check_effective(out);
  if (out.num_threads == 0) out.num_threads = threads_by_machine();
  return result;
}

}  // namespace clipbert::config
