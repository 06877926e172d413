/// Run-time names of the storage formats.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace amp {

/// A storage format chosen at run time. Compile-time facts of each: half_traits.hpp.
enum class dtype : std::uint8_t { fp32, fp16, bf16, e4m3, e5m2, e4m3fnuz, e5m2fnuz };
/// All of them, for messages.
inline constexpr std::string_view dtype_names = "fp32, fp16, bf16, e4m3, e5m2, e4m3fnuz or e5m2fnuz";

[[nodiscard]] constexpr std::string_view name(dtype t) noexcept {
  switch (t) {
    case dtype::fp32:
      return "fp32";
    case dtype::fp16:
      return "fp16";
    case dtype::bf16:
      return "bf16";
    case dtype::e4m3:
      return "e4m3";
    case dtype::e5m2:
      return "e5m2";
    case dtype::e4m3fnuz:
      return "e4m3fnuz";
    case dtype::e5m2fnuz:
      return "e5m2fnuz";
  }
  return "unknown";
}

/// False for a value that was cast from elsewhere and names no format.
[[nodiscard]] constexpr bool known(dtype t) noexcept { return t <= dtype::e5m2fnuz; }

/// Bytes of one element.
[[nodiscard]] constexpr std::size_t size_of(dtype t) noexcept {
  return t == dtype::fp32 ? 4 : t <= dtype::bf16 ? 2 : 1;
}

}  // namespace amp
