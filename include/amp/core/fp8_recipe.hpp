/// Names of the fp8 and fp4 recipes, as a level carries them. What each one does: nn/fp8_recipe.hpp.
#pragma once
#include <cstdint>
#include <string_view>

namespace amp::fp8 {

/// How the operands of a GEMM are quantised: `O2_bf16.with(fp8::hybrid)`. Weights are never stored in it.
enum class recipe : std::uint8_t {
  none,     ///< operands in the level's format
  hybrid,   ///< delayed scaling, e4m3 forward and e5m2 backward
  e4m3,     ///< delayed scaling, e4m3 both ways
  current,  ///< the tensor's own amax, e4m3 forward and e5m2 backward
  block,    ///< fp32 scales for 1x128 and 128x128 blocks, e4m3
  mxfp8,    ///< e8m0 scales for blocks of 32, e4m3
  nvfp4,    ///< e4m3 scales for blocks of 16 and one fp32 scale, e2m1
};
inline constexpr recipe none = recipe::none, hybrid = recipe::hybrid, e4m3 = recipe::e4m3, current = recipe::current,
                        block = recipe::block, mxfp8 = recipe::mxfp8, nvfp4 = recipe::nvfp4;

[[nodiscard]] constexpr std::string_view name(recipe r) noexcept {
  switch (r) {
    case recipe::none:
      return "none";
    case recipe::hybrid:
      return "hybrid";
    case recipe::e4m3:
      return "e4m3";
    case recipe::current:
      return "current";
    case recipe::block:
      return "block";
    case recipe::mxfp8:
      return "mxfp8";
    case recipe::nvfp4:
      return "nvfp4";
  }
  return "unknown";
}

}  // namespace amp::fp8
