/// Delayed scaling: the scale of a step comes from the largest magnitudes of earlier steps, so one pass is enough.
#pragma once
#include <algorithm>
#include <amp/apply/exec.hpp>
#include <amp/core/check.hpp>
#include <amp/fn/compute_scale.hpp>
#include <amp/half_traits.hpp>
#include <amp/nn/fp8_blocks.hpp>
#include <amp/nn/fp8_recipe.hpp>
#include <amp/tensor/matrix.hpp>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace amp::fp8 {

/// The amax history of one tensor and the scale that follows from it.
class DelayedScale {
 public:
  /// throws  amp::error for a history of no length
  template <class F>
  DelayedScale(const delayed_scaling<F>& recipe, float max_format, where at = where::here())
      : choose_(recipe.choose), margin_(recipe.margin), max_format_(max_format) {
    expects(
        recipe.history > 0,
        [&] { return "delayed scaling with a history of " + std::to_string(recipe.history) + "; it needs at least 1"; },
        at);
    history_.resize(static_cast<std::size_t>(recipe.history));
  }

  [[nodiscard]] fn::scale_pair scale() const noexcept { return scale_; }
  /// Slot 0 collects; the newest finished step is the last one.
  [[nodiscard]] std::span<const float> history() const noexcept { return history_; }

  /// Adds the amax of a tensor, or part of one, to this step's.
  void collect(float amax) noexcept { history_[0] = amax > history_[0] ? amax : history_[0]; }
  /// This step's amax: what ranks reduce by their maximum before update.
  [[nodiscard]] float& collected() noexcept { return history_[0]; }

  /// Ends a step: the next scale is (max / amax) / 2^margin, brought into fp32's normal range. An amax of 0 keeps the
  /// scale; so does one that is not finite, which leaves no trace in the history, or it would hold the scale for its
  /// whole length.
  void update() noexcept {
    const float amax =
        choose_ == amax_choice::largest ? *std::max_element(history_.begin(), history_.end()) : history_[0];
    constexpr float largest = std::numeric_limits<float>::max();
    if (amax > 0.f && amax <= largest) {
      const float scale = std::ldexp(max_format_ / amax, -margin_);
      scale_.scale = std::clamp(scale, std::numeric_limits<float>::min(), largest);
      scale_.inverse = fn::reciprocal_of_scale(scale_.scale);
    }
    if (!(history_[0] <= largest)) history_[0] = 0.f;
    std::rotate(history_.begin(), history_.begin() + 1, history_.end());
    history_[0] = 0.f;
  }

  /// Puts back a saved state.
  /// throws  amp::error for a history of another length, and for numbers that no state has
  void load(float scale, std::span<const float> history, where at = where::here()) {
    expects(
        history.size() == history_.size(),
        [&] {
          return "a saved amax history of " + std::to_string(history.size()) + " entries for one of " +
                 std::to_string(history_.size());
        },
        at);
    const auto amax = [](float x) { return x >= 0.f && x <= std::numeric_limits<float>::max(); };
    expects(
        amax(scale) && scale > 0.f,
        [&] { return "a saved scale is " + std::to_string(scale) + "; it must be a number above 0"; }, at);
    expects(std::all_of(history.begin(), history.end(), amax),
            "a saved amax history holds a number that is negative or not finite", at);
    history_.assign(history.begin(), history.end());
    scale_ = {scale, fn::reciprocal_of_scale(scale)};
  }

 private:
  std::vector<float> history_;
  fn::scale_pair scale_;
  amax_choice choose_;
  int margin_;
  float max_format_;
};

/// Ends a step of many tensors. `reduce(span<float>)` may replace each amax by the largest of all ranks.
template <class Reduce>
void update_scales(std::span<DelayedScale* const> scales, Reduce&& reduce) {
  std::vector<float> amax;
  amax.reserve(scales.size());
  for (DelayedScale* scale : scales) amax.push_back(scale->collected());
  reduce(std::span<float>(amax));
  for (std::size_t i = 0; i < scales.size(); ++i) {
    scales[i]->collected() = amax[i];
    scales[i]->update();
  }
}
inline void update_scales(std::span<DelayedScale* const> scales) {
  update_scales(scales, [](std::span<float>) {});
}

/// Quantises with the scale of earlier steps and collects the amax of this one, in one pass.
template <class T, exec::HostExecutor E>
[[nodiscard]] Quantized<T, float> quantize(const E& executor, DelayedScale& state, const matrix_view& x,
                                           where at = where::here()) {
  auto q = quantize_tensor<T>(executor, x, state.scale(), at);
  state.collect(q.amax);
  return q;
}

}  // namespace amp::fp8
