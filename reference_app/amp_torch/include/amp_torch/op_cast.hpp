/// O1: casts per operation, by LibTorch's autocast.
#pragma once
#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>
#include <c10/macros/Export.h>

// The functions of <ATen/autocast_mode.h> that are used here; that header includes every operator.
namespace at::autocast {
TORCH_API bool is_autocast_enabled(c10::DeviceType device_type);
TORCH_API void set_autocast_enabled(c10::DeviceType device_type, bool enabled);
TORCH_API c10::ScalarType get_autocast_dtype(c10::DeviceType device_type);
TORCH_API void set_autocast_dtype(c10::DeviceType device_type, c10::ScalarType dtype);
TORCH_API void clear_cache();
TORCH_API int increment_nesting();
TORCH_API int decrement_nesting();
TORCH_API bool is_autocast_cache_enabled();
TORCH_API void set_autocast_cache_enabled(bool enabled);
}  // namespace at::autocast

namespace amp_torch {

/// A region in which matrix products and convolutions run in `type` and sensitive operations in fp32. Regions nest; the
/// outer state comes back at the end, on exceptions too. A default-constructed region changes nothing.
/// Weights are cast once per outermost region; the cast copies are dropped when that region ends.
/// Autocast's lists on the CPU differ from those on CUDA: softmax stays in the low type there.
class OpCast {
 public:
  OpCast() = default;
  explicit OpCast(at::ScalarType type, c10::DeviceType device = c10::DeviceType::CPU, bool enabled = true)
      : device_(device),
        active_(true),
        was_enabled_(at::autocast::is_autocast_enabled(device)),
        was_type_(at::autocast::get_autocast_dtype(device)),
        was_caching_(at::autocast::is_autocast_cache_enabled()) {
    at::autocast::set_autocast_enabled(device_, enabled);
    if (enabled) at::autocast::set_autocast_dtype(device_, type);
    at::autocast::set_autocast_cache_enabled(true);
    at::autocast::increment_nesting();
  }
  ~OpCast() {
    if (!active_) return;
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, was_enabled_);
    at::autocast::set_autocast_dtype(device_, was_type_);
    at::autocast::set_autocast_cache_enabled(was_caching_);
  }
  OpCast(const OpCast&) = delete;  // the state it restores belongs to one scope of one thread
  OpCast& operator=(const OpCast&) = delete;

 private:
  c10::DeviceType device_ = c10::DeviceType::CPU;
  bool active_ = false, was_enabled_ = false;
  at::ScalarType was_type_ = at::ScalarType::Float;
  bool was_caching_ = true;
};

}  // namespace amp_torch
