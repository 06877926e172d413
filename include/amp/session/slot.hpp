/// What a session knows of one optimizer's gradients.
#pragma once
#include <amp/core/check.hpp>
#include <amp/master_weights.hpp>
#include <amp/scaling/policies.hpp>
#include <cstdint>
#include <cstdio>
#include <string>

namespace amp::detail {

/// Gradients in the model's tensors, from the beginning or the last step on.
///   fresh   nothing was scaled yet: taken as they are, at scale 1
///   zeroed  cleared by the session
///   scaled  waiting for more (delay_unscale)
///   ready   complete, at `scale`
///   spent   used by a step
enum class grads : std::uint8_t { fresh, zeroed, scaled, ready, spent };

/// A scale as a text: 65536, 1.5258789e-05.
[[nodiscard]] inline std::string number(float x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", static_cast<double>(x));
  return text;
}

struct GradSlot {
  grads status = grads::fresh;
  float scale = 1.f;     ///< what the gradients in the model's tensors were multiplied by
  double clip = 1.;      ///< factor of clip_grad_norm, folded into the step
  bool skip = false;     ///< an overflow marked the next step
  bool checked = false;  ///< `check` holds for the present gradients
  GradCheck check;

  [[nodiscard]] float inverse() const noexcept { return inverse_scale(scale); }

  void cleared() noexcept {
    status = grads::zeroed;
    scale = 1.f, clip = 1.;
    checked = false;
  }
  void spend() noexcept {
    status = grads::spent;
    clip = 1.;
    skip = checked = false;
  }
  void fill(grads now, float by) noexcept {
    status = now;
    scale = by;
    checked = false;
  }

  /// throws  amp::error if a step or a norm would see scaled or used gradients
  void expect_steppable(bool enabled, where at) const {
    expects(status != grads::scaled,
            "step() on scaled gradients: the last scale_loss delayed the unscale; end the accumulation with a scope "
            "without delay_unscale",
            at);
    expects(
        status != grads::spent || !enabled,
        "step() without new gradients: no scale_loss since the last step (zero_grad first to step on gradients that "
        "nothing scaled)",
        at);
  }
  void expect_clippable(bool enabled, where at) const {
    expects(status != grads::scaled,
            "clip_grad_norm on scaled gradients: the last scale_loss delayed the unscale; end the accumulation with a "
            "scope without delay_unscale",
            at);
    expects(status != grads::spent || !enabled,
            "clip_grad_norm without new gradients: clip between scale_loss and step", at);
  }
};

}  // namespace amp::detail
