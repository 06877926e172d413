/// The forward pass of a model at a level: inputs and outputs cast, operations cast at O1.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <amp/opt_level.hpp>
#include <amp_torch/cast.hpp>
#include <amp_torch/dtype.hpp>
#include <amp_torch/op_cast.hpp>
#include <concepts>
#include <optional>
#include <utility>

namespace amp_torch {

/// The region in which a level's forward pass runs: casts per operation at O1, nothing elsewhere.
/// Usage: `const auto region = amp_torch::forward_region<amp::O1>();`
template <amp::OptLevel L>
[[nodiscard]] OpCast forward_region(c10::DeviceType device = c10::DeviceType::CPU, op_cast_options options = {}) {
  if constexpr (L.enabled && L.cast == amp::casting::op) {
    return OpCast(to_torch(L.compute), device, true, std::move(options));
  } else {
    return OpCast();
  }
}

/// Options of ModelForward.
struct forward_options {
  /// The type of the floating outputs at any level; none: fp32 at O2 and O3, as they come at O0 and O1.
  std::optional<at::ScalarType> cast_model_outputs = {};
  op_cast_options op_cast = {};  ///< of O1
  /// The device that the region of O1 casts on; none: that of the model's first parameter, at each call.
  std::optional<c10::DeviceType> device = {};
};

/// Calls a model's `forward` as the level wants it: at O2 and O3 every floating tensor among the arguments is cast to
/// the level's type, as deep as cast_floating goes, and the outputs to fp32; at O1 it runs in a region. The model must
/// outlive it. Usage: `amp_torch::ModelForward<amp::O2, Net> forward(*net); const auto y = forward(x, batch);`
template <amp::OptLevel L, std::derived_from<torch::nn::Module> Net>
class ModelForward {
  static_assert(amp::coherent<L>());

 public:
  explicit ModelForward(Net& net, forward_options options = {}) : net_(&net), options_(std::move(options)) {}

  template <class... Args>
  auto operator()(const Args&... args) const {
    if constexpr (!L.enabled) {
      return net_->forward(args...);
    } else if constexpr (L.cast == amp::casting::model) {
      constexpr at::ScalarType low = to_torch(L.compute);
      return cast_floating(net_->forward(cast_floating(args, low)...),
                           options_.cast_model_outputs.value_or(at::kFloat));
    } else {
      const auto out = [&] {
        const auto region = forward_region<L>(options_.device.value_or(device()), options_.op_cast);
        return net_->forward(args...);
      }();
      return options_.cast_model_outputs ? cast_floating(out, *options_.cast_model_outputs) : out;
    }
  }

 private:
  [[nodiscard]] c10::DeviceType device() const {
    const auto parameters = net_->parameters();
    return parameters.empty() ? c10::DeviceType::CPU : parameters.front().device().type();
  }

  Net* net_;
  forward_options options_;
};

}  // namespace amp_torch
