#include "train/foreign_state.hpp"

#include <torch/torch.h>

#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/errors.hpp"
#include "io/checkpoint_file.hpp"
#include "io/saved_training.hpp"
#include "io/weight_names.hpp"
#include "model/clipbert.hpp"
#include "train/checkpoint.hpp"
#include "train/trainer.hpp"

namespace fs = std::filesystem;

namespace clipbert::train {
namespace {

using Tensors = std::map<std::string, at::Tensor>;

const std::string optimizer_key = "session.optimizer.0.", scaler_key = "session.scaler.0.", model_key = "model.";

/// What stands behind `prefix` in a key that starts with it.
std::optional<std::string> behind(const std::string& prefix, const std::string& key) {
  return key.starts_with(prefix) ? std::optional(key.substr(prefix.size())) : std::nullopt;
}

/// Builds a state on top of the trainer's own.
class Adoption {
 public:
  Adoption(const fs::path& file, const Trainer& trainer, const model::ClipBert& model)
      : file_(file), trainer_(trainer), own_(model.named_tensors()), state_(trainer.state()) {}

  void take_weights(const io::Value& checkpoint);
  void take_optimizer(const io::Value& optimizer);
  void take_scale(const io::SavedScaler& saved, double scale_init);
  void set_step(std::int64_t step, std::int64_t micro_batches);
  [[nodiscard]] TrainingState take() { return std::move(state_); }
  [[nodiscard]] const std::string& remarks() const { return remarks_; }

 private:
  [[noreturn]] void refuse(const std::string& what) const { throw content_error(file_.string() + ": " + what); }
  void note(const std::string& what) { remarks_ += (remarks_.empty() ? "" : "; ") + what; }
  /// Values as the session stores them: fp32, in the order in which the parameter lies in memory.
  [[nodiscard]] amp::SavedTensor in_memory_order(const at::Tensor& values, const std::string& name) const;
  [[nodiscard]] at::Tensor moment(const io::Value& saved, const std::string& key, const std::string& name);
  void put_moment(const std::string& key, const std::string& name, const io::Value& saved);

  const fs::path& file_;
  const Trainer& trainer_;
  Tensors own_;
  TrainingState state_;
  std::string remarks_;
  bool halved_ = false;
};

amp::SavedTensor Adoption::in_memory_order(const at::Tensor& values, const std::string& name) const {
  const at::Tensor& like = own_.at(name);
  const at::Tensor laid_out = at::empty_strided(like.sizes(), like.strides(), at::kFloat);
  laid_out.copy_(values.reshape(like.sizes()));
  amp::SavedTensor out{"F32", {like.numel()}, std::vector<std::byte>(laid_out.nbytes())};
  std::memcpy(out.bytes.data(), laid_out.const_data_ptr(), out.bytes.size());
  return out;
}

void Adoption::take_weights(const io::Value& checkpoint) {
  io::Weights read = io::weights_in(checkpoint, file_);
  io::Shapes shapes;
  for (const auto& [name, t] : own_) shapes[name] = t.sizes().vec();
  const auto match = io::match_names(io::shapes_of(read.tensors), shapes, {""}, file_);
  if (!match.missing.empty() || !match.mismatched.empty())
    refuse("it is of another model: " + match.report() + "; take the model_config and cnn that it was trained with");
  Tensors weights;
  for (const auto& [name, from] : match.loaded) weights[name] = to_torch(std::move(read.tensors.at(from)));
  for (auto& [key, saved] : state_.tensors) {
    if (const auto name = behind(model_key, key)) {  // buffers and frozen parameters, in the model's own types
      const auto found = weights.find(*name);
      if (found == weights.end()) continue;  // a counter that old files lack
      const at::Tensor value = found->second.to(own_.at(*name).scalar_type()).contiguous();
      halved_ = halved_ || found->second.scalar_type() == at::kHalf;
      std::memcpy(saved.bytes.data(), value.const_data_ptr(), saved.bytes.size());
    } else if (const auto trained = behind(optimizer_key + "master.", key)) {
      const at::Tensor& value = weights.at(*trained);
      if (!at::isfinite(value).all().item<bool>())
        refuse("tensor " + *trained + " holds NaN or infinity; take an older file");
      halved_ = halved_ || value.scalar_type() == at::kHalf;
      saved = in_memory_order(value, *trained);
    }
  }
  std::erase_if(state_.tensors, [&](const auto& entry) {  // copies that are made of the masters again
    return entry.first.starts_with(optimizer_key + "weight.") || entry.first.starts_with(optimizer_key + "master_");
  });
}

at::Tensor Adoption::moment(const io::Value& saved, const std::string& key, const std::string& name) {
  const io::Value* value = saved.find(key);
  if (value == nullptr || value->tensor() == nullptr) refuse("the optimizer's state of " + name + " lacks " + key);
  at::Tensor t = to_torch(io::dense(*value->tensor()));
  if (t.numel() != own_.at(name).numel())
    refuse("the optimizer's " + key + " of " + name + " has " + std::to_string(t.numel()) + " elements, the model's " +
           std::to_string(own_.at(name).numel()));
  if (!at::isfinite(t).all().item<bool>()) refuse("the optimizer's " + key + " of " + name + " holds NaN or infinity");
  halved_ = halved_ || t.scalar_type() == at::kHalf;
  return t;
}

void Adoption::put_moment(const std::string& key, const std::string& name, const io::Value& saved) {
  state_.tensors[optimizer_key + key + '.' + name] = in_memory_order(moment(saved, key, name), name);
}

/// Parameters are numbered through the groups, as the original and torch's state_dict() number them.
void Adoption::take_optimizer(const io::Value& optimizer) {
  const io::Value* entries = optimizer.find("state");
  const io::Value* groups = optimizer.find("param_groups");
  if (entries == nullptr || groups == nullptr) refuse("its optimizer has no state and param_groups");
  const auto& own = trainer_.groups();
  if (groups->items().size() != own.size())
    refuse("its optimizer has " + std::to_string(groups->items().size()) + " parameter groups, this run has " +
           std::to_string(own.size()));
  for (std::size_t g = 0; g < own.size(); ++g) {
    const io::Value* ids = groups->items()[g].find("params");
    const std::size_t count = ids == nullptr ? 0 : ids->items().size();
    if (count != own[g].names.size())
      refuse("group " + std::to_string(g) + " of its optimizer has " + std::to_string(count) +
             " parameters, this run's has " + std::to_string(own[g].names.size()) +
             ": the prefixes of lr_mul, freeze_cnn or the model differ");
    std::int64_t step = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const auto id = ids->items()[i].as_int();
      const io::Value* saved = id ? entries->find(*id) : nullptr;
      if (saved == nullptr) continue;  // never stepped
      const std::string& name = own[g].names[i];
      put_moment("exp_avg", name, *saved);
      put_moment(saved->find("exp_inf") != nullptr ? "exp_inf" : "exp_avg_sq", name, *saved);
      if (const io::Value* steps = saved->find("step"))
        step = static_cast<std::int64_t>(steps->as_scalar().value_or(0));
    }
    amp::save_value<std::int64_t>(state_.tensors, optimizer_key + "group.group " + std::to_string(g) + ".step", step);
  }
}

void Adoption::take_scale(const io::SavedScaler& saved, double scale_init) {
  const auto policy = state_.tensors.find(scaler_key + "policy");
  if (policy == state_.tensors.end()) return;
  const bool usable = std::isfinite(saved.scale) && saved.scale > 0;
  if (!usable)
    note("its loss scale is " + std::string(saved.scale == 0 ? "0" : "not finite") + " and was replaced by scale_init");
  amp::save_value<float>(state_.tensors, scaler_key + "scale", static_cast<float>(usable ? saved.scale : scale_init));
  const std::int64_t clean = usable ? saved.unskipped : 0;
  if (policy->second.bytes.size() >= sizeof clean) std::memcpy(policy->second.bytes.data(), &clean, sizeof clean);
}

void Adoption::set_step(std::int64_t step, std::int64_t micro_batches) {
  state_.step = step;
  state_.meta["position"] = step * micro_batches;
  amp::save_value<std::int64_t>(state_.tensors, "session.steps", step);
  if (halved_)
    note(
        "weights and moments were saved in half precision, as the original saves them: training goes on from rounded "
        "values");
}

}  // namespace

std::int64_t foreign_step(const io::Value& checkpoint, const fs::path& file) {
  auto step = io::saved_global_step(checkpoint);
  if (!step) step = io::saved_adam_step(checkpoint);
  if (!step)
    throw content_error(file.string() +
                        ": is no state of a training run: it has no global_step and no optimizer; for weights alone, "
                        "use e2e_weights_path");
  return *step;
}

TrainingState from_foreign(const io::Value& checkpoint, const fs::path& file, const Trainer& trainer,
                           const model::ClipBert& model, const config::Config& config,
                           const std::function<void(std::string_view)>& remark) {
  const torch::NoGradGuard no_grad;
  Adoption adoption(file, trainer, model);
  adoption.take_weights(checkpoint);
  const io::Value* optimizer = io::saved_optimizer(checkpoint);
  if (optimizer == nullptr)
    throw content_error(file.string() + ": holds no optimizer; for weights alone, use e2e_weights_path");
  adoption.take_optimizer(*optimizer);
  const auto scalers = io::saved_scalers(checkpoint);
  const bool dynamic = config.loss_scale && config.loss_scale->dynamic;
  if (!scalers.empty() && dynamic) adoption.take_scale(scalers.front(), config.scale_init);
  adoption.set_step(foreign_step(checkpoint, file), config.gradient_accumulation_steps);
  if (!adoption.remarks().empty()) remark(file.string() + ": " + adoption.remarks());
  return adoption.take();
}

}  // namespace clipbert::train
