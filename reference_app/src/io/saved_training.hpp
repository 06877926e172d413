/// What training saved beside the weights, in apex's form {model, optimizer, amp} and in the original's
/// {model_state_dict, optim_state_dict, amp_state_dict, global_step}.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/value.hpp"

namespace clipbert::io {

/// A loss scaler of apex or of torch. The scale may be 0 or infinite: whoever loads it decides what to do then.
struct SavedScaler {
  double scale = 1;
  std::int64_t unskipped = 0;

  /// A scale that gradients can be multiplied by.
  [[nodiscard]] bool usable() const;
  /// "the saved loss scale is inf, ...", for whoever resets or refuses it.
  [[nodiscard]] std::string problem() const;
};

/// The loss scalers in the order of their numbers; of torch's GradScaler the one.
[[nodiscard]] std::vector<SavedScaler> saved_scalers(const Value& checkpoint);

/// {state, param_groups} of the optimizer; null if there is none.
[[nodiscard]] const Value* saved_optimizer(const Value& checkpoint);

/// The largest `step` in the optimizer's state.
[[nodiscard]] std::optional<std::int64_t> saved_adam_step(const Value& checkpoint);

/// global_step, else step, of the checkpoint itself.
[[nodiscard]] std::optional<std::int64_t> saved_global_step(const Value& checkpoint);

}  // namespace clipbert::io
