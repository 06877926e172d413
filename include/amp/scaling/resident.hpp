/// A scaler as one plain struct that lives where the step runs: the host reads nothing back between steps.
#pragma once
#include <amp/core/config.hpp>
#include <amp/loss_scaler.hpp>
#include <amp/scaling/policies.hpp>
#include <cstdint>
#include <type_traits>

namespace amp {

/// Scale, trackers and overflow flag. Kernels read `scale`, `inverse` and `found_inf` through pointers into it: the one
/// that multiplies the loss, the one that looks at the gradients (and sets the flag), those that step (and do nothing
/// where the flag is set); `update` runs last, in one thread. On a CPU the struct lies in host memory.
template <ScalePolicy Policy = DynamicScale>
struct resident_scale {
  float scale = 1.f;
  float inverse = 1.f;
  std::int32_t found_inf = 0;  ///< 1: an element of the gradients is not finite; kernels set it and never clear it
  LossScaler<Policy> scaler{};

  resident_scale() = default;
  explicit constexpr resident_scale(const LossScaler<Policy>& from) noexcept
      : scale(from.scale()), inverse(inverse_scale(from.scale())), scaler(from) {}

  /// What a step has to look at: the flag, or null where the policy never skips.
  [[nodiscard]] AMP_HD constexpr const std::int32_t* gate() const noexcept {
    return scaler.skips() ? &found_inf : nullptr;
  }
  /// Moves the scale by what was found and clears the flag for the next step. Nothing here can throw or wait.
  AMP_HD constexpr Verdict update() noexcept {
    const Verdict verdict = scaler.update(found_inf != 0);
    scale = scaler.scale();
    inverse = inverse_scale(scale);
    found_inf = 0;
    return verdict;
  }
};

/// The kernel of `update`, one thread.
struct update_resident_scale {
  template <ScalePolicy Policy>
  AMP_HD constexpr void operator()(resident_scale<Policy>& s) const noexcept {
    s.update();
  }
};

static_assert(std::is_trivially_copyable_v<resident_scale<DynamicScale>> &&
              std::is_standard_layout_v<resident_scale<NoScale>>);

}  // namespace amp
