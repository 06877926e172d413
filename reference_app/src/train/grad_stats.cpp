#include "train/grad_stats.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "log/event_sink.hpp"

namespace clipbert::train {
namespace {

constexpr std::int64_t lowest = -64, highest = 16;  // powers of two that a histogram tells apart

double smallest_normal(at::ScalarType type) {
  return type == at::kHalf ? 0x1p-14 : static_cast<double>(std::numeric_limits<float>::min());  // bf16 too
}

}  // namespace

void report_gradients(log::EventSink& sink, std::string_view group, std::int64_t step,
                      const std::vector<at::Tensor>& gradients, double scale, bool histogram) {
  const at::NoGradGuard no_graph;
  double count = 0, sum = 0, squares = 0, lost = 0;
  at::Tensor bins = at::zeros({highest - lowest}, at::kFloat);
  for (const at::Tensor& gradient : gradients) {
    const at::Tensor g = gradient.to(at::kFloat);
    count += static_cast<double>(g.numel());
    sum += g.sum(at::kDouble).item<double>();
    const double norm = at::linalg_vector_norm(g, 2, {}, false, at::kDouble).item<double>();
    squares += norm * norm;
    lost += g.abs().lt(smallest_normal(gradient.scalar_type())).sum().item<double>();
    if (!histogram) continue;
    const at::Tensor powers = g.abs().div(scale).log2().clamp(lowest, static_cast<double>(highest) - 0.5);
    bins += at::histc(powers, highest - lowest, lowest, highest);
  }
  if (count == 0 || !std::isfinite(sum) || !std::isfinite(squares)) return;  // a step that will be skipped
  const double mean = sum / count, variance = std::max(0.0, squares / count - mean * mean);
  const auto tag = [&](const char* what) { return std::string(what) + std::string(group); };
  sink.scalar(tag("amp/grad_mean/"), step, mean / scale);
  sink.scalar(tag("amp/grad_std/"), step, std::sqrt(variance) / scale);
  sink.scalar(tag("amp/grad_underflow/"), step, lost / count);
  if (!histogram) return;
  log::Histogram h;
  for (std::int64_t i = 0; i < highest - lowest; ++i)
    h.add(static_cast<double>(lowest + i + 1), bins[i].item<double>());
  sink.histogram(tag("amp/grad_log2/"), step, h);
}

}  // namespace clipbert::train
