/// Shared cases that are left out, each with its reason; none is.
#pragma once
#include <array>
#include <string_view>

namespace test_support {

struct SkippedCases {
  std::string_view kind, suffix, reason;
};

inline constexpr std::array<SkippedCases, 0> skip_list{};

/// Why a case is left out; empty for one that is not.
inline std::string_view skip_reason(std::string_view kind, std::string_view name) {
  for (const auto& entry : skip_list)
    if (entry.kind == kind && name.ends_with(entry.suffix)) return entry.reason;
  return {};
}

}  // namespace test_support
