/// LibTorch parameters as amp::Param: checked once, gradient pointers refreshed before each use.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>

#include <amp/core/check.hpp>
#include <amp/optim/param_source.hpp>
#include <amp/tensor/param.hpp>
#include <amp_torch/dtype.hpp>
#include <amp_torch/op_cast.hpp>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace amp_torch {

/// A parameter with the name that errors and reports use.
struct NamedParam {
  std::string name;
  at::Tensor tensor;
};

/// Parameters that share hyper-parameters.
template <class Optimizer>
struct ParamGroup {
  std::vector<NamedParam> params;
  Optimizer optimizer;
  std::string name = {};
};

namespace detail {
inline std::string quoted(const std::string& name) { return "parameter \"" + name + "\""; }

/// Biases and one-dimensional weights of norms by their names, as the checkpoints of most models spell them.
inline amp::role role_of(const std::string& name, const at::Tensor& t) {
  if (name.ends_with("bias")) return amp::role::bias;
  if (name.find("embeddings.weight") != std::string::npos) return amp::role::embedding;
  return t.dim() == 1 ? amp::role::norm : amp::role::weight;
}

/// True if equal positions in memory are equal elements; the stride of a dimension of length 1 means nothing.
inline bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  for (std::int64_t d = 0; d < a.dim(); ++d) {
    if (a.size(d) > 1 && a.stride(d) != b.stride(d)) return false;
  }
  return true;
}
}  // namespace detail

/// One parameter; its gradient is looked up by refresh_grad.
/// throws  amp::error naming the parameter: sparse, not on the CPU, of a type that the toolkit does not step (double,
///         integers), or neither contiguous nor channels-last dense
[[nodiscard]] inline amp::Param to_param(const std::string& name, const at::Tensor& t,
                                         amp::where at = amp::where::here()) {
  amp::expects(
      t.defined(), [&] { return detail::quoted(name) + " is undefined"; }, at);
  amp::expects(
      t.layout() == at::kStrided,
      [&] { return detail::quoted(name) + " is sparse; the optimizers step dense tensors only"; }, at);
  amp::expects(
      t.device().is_cpu(), [&] { return detail::quoted(name) + " is not on the CPU"; }, at);
  const auto type = to_amp(t.scalar_type());
  amp::expects(
      type.has_value(),
      [&] {
        return detail::quoted(name) + " is " + std::string(c10::toString(t.scalar_type())) +
               "; parameters must be float, half or bfloat16, so cast it first";
      },
      at);
  amp::expects(
      t.is_non_overlapping_and_dense(),
      [&] { return detail::quoted(name) + " is a strided view; make it contiguous before initialize"; }, at);
  amp::Param p;
  p.name = name;
  p.value = t.mutable_data_ptr();
  p.size = t.numel();
  p.type = p.grad_type = *type;
  p.role = detail::role_of(name, t);
  p.requires_grad = t.requires_grad();
  return p;
}

/// Looks up where the gradient lies now. A dense gradient whose strides differ from the parameter's is copied into its
/// layout first, so that equal positions in memory belong together.
/// throws  amp::error naming the parameter for a sparse gradient, or one of another shape or type than can be stepped
inline void refresh_grad(amp::Param& p, const at::Tensor& t, amp::where at = amp::where::here()) {
  const at::Tensor& grad = t.grad();
  p.value = t.mutable_data_ptr();
  if (!grad.defined()) {
    p.grad = nullptr;
    return;
  }
  amp::expects(
      grad.layout() == at::kStrided,
      [&] { return detail::quoted(p.name) + " has a sparse gradient; build its embedding with sparse(false)"; }, at);
  amp::expects(
      grad.sizes() == t.sizes(), [&] { return detail::quoted(p.name) + " has a gradient of another shape"; }, at);
  const auto type = to_amp(grad.scalar_type());
  amp::expects(
      type.has_value() && (*type == p.type || *type == amp::dtype::fp32 || p.type == amp::dtype::fp32),
      [&] {
        return detail::quoted(p.name) + " is " + std::string(c10::toString(t.scalar_type())) + " with a gradient of " +
               std::string(c10::toString(grad.scalar_type()));
      },
      at);
  if (!detail::same_layout(grad, t)) {
    const c10::AutoGradMode no_grad(false);
    at::Tensor copy = t.detach().to(grad.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
    copy.copy_(grad);
    t.mutable_grad() = std::move(copy);
  }
  p.grad_type = *type;
  p.grad = t.grad().mutable_data_ptr();
}

/// The parameters of a group as the toolkit's optimizers ask for them.
class TorchParams final : public amp::ParamSource {
 public:
  /// throws  amp::error naming the first parameter that cannot be stepped
  explicit TorchParams(std::vector<NamedParam> params, amp::where at = amp::where::here())
      : tensors_(std::move(params)) {
    params_.reserve(tensors_.size());
    for (const auto& [name, tensor] : tensors_) params_.push_back(to_param(name, tensor, at));
  }

  [[nodiscard]] std::span<const amp::Param> refresh() override {
    OpCast::clear_cache();  // what asks may write the weights, and no version counter tells
    for (std::size_t i = 0; i < tensors_.size(); ++i) refresh_grad(params_[i], tensors_[i].tensor);
    return params_;
  }
  void zero_grad(std::size_t index, amp::zeroing how) override {
    const at::Tensor& t = tensors_[index].tensor;
    if (how == amp::zeroing::release) {
      t.mutable_grad().reset();
    } else if (t.grad().defined()) {
      refresh_grad(params_[index], t);
      amp::fill_zero(params_[index]);
    }
  }
  [[nodiscard]] const std::vector<NamedParam>& tensors() const noexcept { return tensors_; }

 private:
  std::vector<NamedParam> tensors_;
  std::vector<amp::Param> params_;
};

}  // namespace amp_torch
