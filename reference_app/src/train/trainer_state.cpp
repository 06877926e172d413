// Everything that a resumed run needs, out of a trainer and into one.
#include <torch/torch.h>

#include <amp_torch/state_dict.hpp>
#include <cstring>
#include <utility>

#include "config/errors.hpp"
#include "model/clipbert.hpp"
#include "train/trainer_impl.hpp"

namespace clipbert::train {
namespace {

amp::SavedTensor saved(const at::Tensor& t) {
  static const std::map<at::ScalarType, const char*> names{
      {at::kFloat, "F32"}, {at::kDouble, "F64"}, {at::kHalf, "F16"}, {at::kBFloat16, "BF16"},
      {at::kLong, "I64"},  {at::kInt, "I32"},    {at::kByte, "U8"},  {at::kBool, "BOOL"}};
  const at::Tensor dense = t.detach().contiguous();
  amp::SavedTensor out{names.at(t.scalar_type()), dense.sizes().vec(), std::vector<std::byte>(dense.nbytes())};
  if (!out.bytes.empty()) std::memcpy(out.bytes.data(), dense.const_data_ptr(), out.bytes.size());
  return out;
}

/// Copies a saved tensor into one of the same type and shape, bit for bit.
void restore(const at::Tensor& t, const std::string& name, const amp::StateDict& state) {
  const auto found = state.find(name);
  if (found == state.end()) throw content_error("the state lacks \"" + name + "\": is it of another model?");
  const amp::SavedTensor own = saved(t);
  if (found->second.type != own.type || found->second.shape != own.shape) {
    throw content_error("\"" + name + "\" of the state has another type or shape than the model's");
  }
  const at::Tensor copy = at::from_blob(const_cast<std::byte*>(found->second.bytes.data()), t.sizes(), t.scalar_type());
  const at::NoGradGuard no_grad;
  t.copy_(copy);
}

const std::string model_prefix = "model.", session_prefix = "session.", random_key = "random.cpu", fp8_prefix = "fp8.";

}  // namespace

/// What no optimizer holds: buffers and frozen parameters.
std::map<std::string, at::Tensor> Trainer::Impl::untrained() const {
  auto tensors = amp_torch::named_tensors(model);
  for (const auto& [name, p] : trained) tensors.erase(name);
  return tensors;
}

TrainingState Trainer::state() const {
  TrainingState out;
  out.step = impl_->step;
  for (auto& [key, tensor] : impl_->precision->state()) out.tensors.emplace(session_prefix + key, std::move(tensor));
  for (const auto& [name, t] : impl_->untrained()) out.tensors.emplace(model_prefix + name, saved(t));
  if (impl_->fp8) impl_->fp8->save(out.tensors, fp8_prefix);
  out.tensors.emplace(random_key, saved(at::detail::getDefaultCPUGenerator().get_state()));
  out.meta = {{"position", impl_->source.position()},
              {"skipped", impl_->skipped},
              {"skips_in_a_row", impl_->skips_in_a_row},
              {"loss_smoothed", impl_->running.value()},
              {"loss_started", impl_->running.started()}};
  return out;
}

void Trainer::load(const TrainingState& state) {
  amp::StateDict session;
  for (const auto& [key, tensor] : state.tensors) {
    if (key.starts_with(session_prefix)) session.emplace(key.substr(session_prefix.size()), tensor);
  }
  try {
    impl_->precision->load(session);
    if (impl_->fp8) impl_->fp8->load(state.tensors, fp8_prefix);
    for (const auto& [name, t] : impl_->untrained()) restore(t, model_prefix + name, state.tensors);
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    const at::Tensor random = generator.get_state();
    restore(random, random_key, state.tensors);
    generator.set_state(random);
    impl_->step = state.step;
    impl_->skipped = state.meta.at("skipped");
    impl_->skips_in_a_row = state.meta.at("skips_in_a_row");
    impl_->running.restore(state.meta.at("loss_smoothed"), state.meta.at("loss_started"));
    impl_->source.seek(state.meta.at("position"));
  } catch (const amp::error& e) {
    throw content_error(std::string("the state does not fit this run: ") + e.what());
  } catch (const nlohmann::json::exception& e) {
    throw content_error(std::string("the state lacks a counter: ") + e.what());
  }
}

}  // namespace clipbert::train
