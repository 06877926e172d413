/// How many elements are infinite, and how many are NaN.
#pragma once
#include <amp/apply/fold.hpp>
#include <amp/core/check.hpp>
#include <amp/core/config.hpp>
#include <amp/multi_tensor_apply.hpp>
#include <amp/simd/math.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace amp {

struct nonfinite_counts {
  std::vector<std::int64_t> inf{}, nan{};  ///< per tensor
  std::int64_t total_inf = 0, total_nan = 0;
};

namespace fn {

/// Values (1 if infinite, 1 if NaN) of lane (in).
struct CountNonfinite {
  template <class V>
  AMP_HD AMP_INLINE void operator()(V (&value)[2], const V& x) const {
    using simd::reaches;
    using simd::select;
    value[1] = select(reaches(x, 0x7f800001), V(1.f), V(0.f));
    value[0] = select(reaches(x, 0x7f800000), V(1.f), V(0.f)) - value[1];
  }
};

/// Counts in one pass, exactly; nothing is written. For a report after an overflow was found: the common path does not
/// count.
/// throws  amp::error for a malformed list
template <class E>
[[nodiscard]] nonfinite_counts count_nonfinite(const E& executor, tensor_list list, where at = where::here()) {
  const auto lane = lane::in(list);
  amp::detail::check_lanes(at, lane);
  const auto sums = apply::fold<2>(executor, apply::sum{}, CountNonfinite{}, lane);
  nonfinite_counts counts;
  for (std::size_t t = 0; t < list.size(); ++t) {
    counts.inf.push_back(static_cast<std::int64_t>(sums[0].per_tensor[t]));
    counts.nan.push_back(static_cast<std::int64_t>(sums[1].per_tensor[t]));
    counts.total_inf += counts.inf.back();
    counts.total_nan += counts.nan.back();
  }
  return counts;
}

}  // namespace fn
}  // namespace amp
