#include "io/saved_training.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>

namespace clipbert::io {
namespace {

constexpr double largest_step = 1e15;

std::optional<std::int64_t> counter(const Value* value) {
  const auto number = value == nullptr ? std::nullopt : value->as_scalar();
  if (!number || !(*number >= 0) || *number > largest_step || *number != std::floor(*number)) return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

/// Of one scaler: apex's keys, then torch's.
std::optional<SavedScaler> scaler_of(const Value& saved) {
  const auto* scale = saved.find("loss_scale");
  const auto* clean = saved.find("unskipped");
  if (scale == nullptr) scale = saved.find("scale"), clean = saved.find("_growth_tracker");
  const auto value = scale == nullptr ? std::nullopt : scale->as_scalar();
  if (!value) return std::nullopt;
  return SavedScaler{*value, counter(clean).value_or(0)};
}

}  // namespace

bool SavedScaler::usable() const { return scale > 0 && std::isfinite(scale); }

std::string SavedScaler::problem() const {
  std::ostringstream text;
  text << "the saved loss scale is " << scale << ", which no gradient can be scaled by";
  return text.str();
}

std::vector<SavedScaler> saved_scalers(const Value& checkpoint) {
  std::vector<SavedScaler> out;
  for (const char* key : {"amp", "amp_state_dict", "scaler"}) {
    const auto* saved = checkpoint.find(key);
    if (saved == nullptr) continue;
    if (const auto one = scaler_of(*saved)) return {*one};
    for (int i = 0;; ++i) {
      const auto* entry = saved->find("loss_scaler" + std::to_string(i));
      const auto one = entry == nullptr ? std::nullopt : scaler_of(*entry);
      if (!one) break;
      out.push_back(*one);
    }
    if (!out.empty()) break;
  }
  return out;
}

const Value* saved_optimizer(const Value& checkpoint) {
  for (const char* key : {"optimizer", "optim_state_dict", "optimizer_state_dict"}) {
    const auto* saved = checkpoint.find(key);
    if (saved != nullptr && saved->find("state") != nullptr) return saved;
  }
  return nullptr;
}

std::optional<std::int64_t> saved_adam_step(const Value& checkpoint) {
  std::optional<std::int64_t> largest;
  const auto* optimizer = saved_optimizer(checkpoint);
  if (optimizer == nullptr) return largest;
  for (const auto& [id, state] : optimizer->find("state")->entries())
    if (const auto step = counter(state.find("step"))) largest = std::max(largest.value_or(0), *step);
  return largest;
}

std::optional<std::int64_t> saved_global_step(const Value& checkpoint) {
  const auto step = counter(checkpoint.find("global_step"));
  return step ? step : counter(checkpoint.find("step"));
}

}  // namespace clipbert::io
