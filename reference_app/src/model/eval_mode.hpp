/// A scope in which a model is only asked.
#pragma once
#include <ATen/core/grad_mode.h>

#include "model/clipbert.hpp"

namespace clipbert::model {

/// Evaluation mode and no gradients while it lives; then the mode that was before.
class EvalMode {
 public:
  explicit EvalMode(ClipBert& model) : model_(model), was_training_(model.is_training()) { model_.eval(); }
  ~EvalMode() { model_.train(was_training_); }
  EvalMode(const EvalMode&) = delete;  // the mode belongs to the scope that changed it
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  ClipBert& model_;
  bool was_training_;
  at::NoGradGuard no_grad_;
};

}  // namespace clipbert::model
