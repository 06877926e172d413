/// LibTorch tensors as views: multi_tensor_apply takes lists of at::Tensor.
#pragma once
#include <ATen/core/Tensor.h>

#include <amp/core/check.hpp>
#include <amp/tensor/view.hpp>
#include <amp_torch/dtype.hpp>
#include <string>

namespace amp_torch {

/// The tensor's memory, in the order in which it lies there: lists of equal strides have equal elements at equal
/// places. throws  amp::error for a tensor that is not dense, not on the CPU, or of a type that is none of the
/// toolkit's formats
[[nodiscard]] inline amp::tensor_view view_of(const at::Tensor& t, amp::where at = amp::where::here()) {
  amp::expects(t.defined() && t.layout() == at::kStrided && t.is_non_overlapping_and_dense(),
               "a tensor in a list must be defined and dense; call contiguous() first", at);
  amp::expects(t.device().is_cpu(), "a tensor in a list lies on another device than the CPU", at);
  const auto type = storage_format(t.scalar_type());
  amp::expects(
      type.has_value(),
      [&] { return "a tensor in a list is " + std::string(c10::toString(t.scalar_type())) + ", which is no format"; },
      at);
  return {t.mutable_data_ptr(), t.numel(), *type, false, {}};
}

}  // namespace amp_torch

template <>
struct amp::view_traits<at::Tensor> {
  [[nodiscard]] static amp::tensor_view view(const at::Tensor& t) { return amp_torch::view_of(t); }
};
