/// O1: casts per operation, by the toolkit's own lists.
#pragma once
#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <amp/cast/op_lists.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

namespace amp_torch {

/// Options of a region.
struct op_cast_options {
  amp::cast::OpLists lists = {};                        ///< which operation casts what
  bool cache = true;                                    ///< cast a weight once per outermost region
  std::function<void(std::string_view line)> log = {};  ///< takes a line per cast
};

/// A region in which matrix products and convolutions run in `type` and sensitive operations in fp32, by
/// amp::cast's lists: one list for every device. Regions nest; the outer state comes back at the end, on exceptions
/// too. A default-constructed region changes nothing.
///
/// Weights (fp32 leaves that require a gradient) are cast once per outermost region and the cast is shared, so that the
/// gradients of all uses sum in the one fp32 leaf. A weight written in place since is cast again. The casts are dropped
/// when the outermost region ends and after each backward of scale_loss. Region and cache go along to the threads of a
/// backward that starts inside of the region, and to any thread that takes at::ThreadLocalState over; the cache is
/// locked.
///
/// How: a boxed fallback on a dispatch key above autograd sees every operation by its name. That key is LibTorch's for
/// its own tests, so CMake checks for it; without it (`own_lists()` is false) LibTorch's autocast is used, whose lists
/// on the CPU differ: softmax stays low there, and options are not taken.
class OpCast {
 public:
  OpCast() noexcept;
  explicit OpCast(at::ScalarType type, c10::DeviceType device = c10::DeviceType::CPU, bool enabled = true,
                  op_cast_options options = {});
  ~OpCast();
  OpCast(const OpCast&) = delete;  // the state it restores belongs to one scope of one thread
  OpCast& operator=(const OpCast&) = delete;

  /// The low type of the innermost region of this thread, or nothing where casting is off.
  [[nodiscard]] static std::optional<at::ScalarType> type() noexcept;
  /// The device whose tensors that region casts.
  [[nodiscard]] static std::optional<c10::DeviceType> device() noexcept;
  /// Drops the cast weights of the present region.
  static void clear_cache();
  /// Casts made in the present outermost region, those taken from the cache not counted.
  [[nodiscard]] static std::int64_t casts() noexcept;
  /// Whether the toolkit's lists are used, or LibTorch's.
  [[nodiscard]] static bool own_lists() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace amp_torch
