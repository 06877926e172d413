/// What the gradients of a step look like, by group: for TensorBoard.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace clipbert::log {
class EventSink;
}

namespace clipbert::train {

/// Reports amp/grad_mean, amp/grad_std and amp/grad_underflow of a group, and with `histogram` amp/grad_log2.
/// gradients  as the backward pass left them, scaled by `scale`; the figures are of the unscaled ones
/// Underflow is the share of elements that are zero, or below the smallest normal number of their format: those of rows
/// that no batch reached are among them.
void report_gradients(log::EventSink& sink, std::string_view group, std::int64_t step,
                      const std::vector<at::Tensor>& gradients, double scale, bool histogram);

}  // namespace clipbert::train
