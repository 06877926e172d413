/// The toolkit's session of a level that is chosen at run time, behind one interface.
#pragma once
#include <ATen/core/Tensor.h>

#include <amp/optim/state.hpp>
#include <amp_torch/op_cast.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "train/memory.hpp"
#include "train/param_groups.hpp"

namespace clipbert::model {
class ClipBert;
}

namespace clipbert::train {

struct TrainerSettings;

/// What a look at the gradients found.
struct GradientCheck {
  std::string bad_tensor;      ///< the first parameter whose gradient is not finite; empty if all are
  std::optional<double> norm;  ///< of the unscaled gradients, before clipping; where clipping was asked for
};

/// Gradients of one optimizer step go in by scale_loss; check, then step or drop, then zero_grad.
class Precision {
 public:
  virtual ~Precision() = default;

  /// A region for the forward pass: casts per operation at O1, nothing at other levels.
  [[nodiscard]] virtual amp_torch::OpCast forward_region() const = 0;
  /// Hands the scaled loss to `backward`; without `delay` the gradients are checked afterwards and the scale moves.
  virtual void scale_loss(const at::Tensor& loss, bool delay,
                          const std::function<void(const at::Tensor& scaled)>& backward) = 0;
  /// Looks at the complete gradients and, with `max_norm`, makes the step clip them.
  virtual GradientCheck check(std::optional<double> max_norm) = 0;
  [[nodiscard]] virtual double loss_scale() const = 0;
  virtual void set_rates(std::span<const double> rates) = 0;
  virtual void step() = 0;
  /// Forgets the gradients of a step that is not to be done.
  virtual void drop() = 0;
  virtual void zero_grad() = 0;

  /// The fp32 values of each trained parameter, in the parameter's shape: its master if it has one.
  virtual void for_each_master(const std::function<void(const std::string& name, const at::Tensor&)>& fn) = 0;
  /// weights, masters, gradients and optimizer state
  [[nodiscard]] virtual MemoryUse memory() = 0;
  /// Masters, moments, counters and scaler.
  [[nodiscard]] virtual amp::StateDict state() const = 0;
  virtual void load(const amp::StateDict& state) = 0;
};

/// Casts the model as the level says and prepares its optimizer. `log` takes a line per change of the scale.
/// throws  usage_error for an unknown level, optimizer or scaler, and for what the level contradicts
std::unique_ptr<Precision> make_precision(model::ClipBert& model, const TrainerSettings& settings,
                                          std::span<const ParamGroup> groups,
                                          std::function<void(std::string_view)> log);

}  // namespace clipbert::train
