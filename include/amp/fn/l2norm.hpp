/// Euclidean norm over lists, in all and per tensor, with the check for non-finite elements in the same pass.
#pragma once
#include <amp/apply/reduce.hpp>
#include <amp/core/check.hpp>
#include <amp/multi_tensor_apply.hpp>
#include <amp/tensor/list.hpp>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace amp {

struct norm_result {
  double total = 0;
  std::vector<double> per_tensor;     ///< 0 for a tensor without elements
  bool finite = true;                 ///< no element is infinite or NaN
  std::int64_t first_nonfinite = -1;  ///< index of the first tensor with such an element
};

namespace fn {

namespace detail {
/// Marks where a per-tensor result says that an element was not finite.
inline void mark_nonfinite(norm_result& result) {
  for (std::size_t t = 0; t < result.per_tensor.size() && result.finite; ++t) {
    if (std::isfinite(result.per_tensor[t])) continue;
    result.finite = false;
    result.first_nonfinite = static_cast<std::int64_t>(t);
  }
}
/// Sums of squares become norms.
[[nodiscard]] inline norm_result roots(apply::reduction sums) {
  norm_result result{std::sqrt(sums.total), std::move(sums.per_tensor)};
  mark_nonfinite(result);
  for (double& value : result.per_tensor) value = std::sqrt(value);
  return result;
}
}  // namespace detail

/// The norm of a read lane: `l2norm(executor, lane::in(gradients, inv_scale))` is the norm of the unscaled gradients,
/// which are not written. Sums in fp32 lanes and double (apply/reduce.hpp): finite elements always give a finite norm.
/// throws  amp::error for a malformed list
template <class E, bool Scaled, bool Checked>
[[nodiscard]] norm_result l2norm(const E& executor, const lane::input<Scaled, Checked>& lane,
                                 where at = where::here()) {
  amp::detail::check_lanes(at, lane);
  using exec::launch_sum;
  norm_result result = detail::roots(launch_sum(executor, apply::square{}, lane));
  if constexpr (Checked) lane.report->add(result.first_nonfinite);
  return result;
}
template <class E>
[[nodiscard]] norm_result l2norm(const E& executor, tensor_list list, where at = where::here()) {
  return l2norm(executor, lane::in(list), at);
}

/// The norm of list * inv_scale; the list is not written. A power of two gives exactly that multiple of the norm.
template <class E>
[[nodiscard]] norm_result unscale_l2norm(const E& executor, tensor_list list, float inv_scale,
                                         where at = where::here()) {
  return l2norm(executor, lane::in(list, inv_scale), at);
}
/// As l2norm with a check, but of the "noop" kind: with the report's flag set on entry nothing is read, and all norms
/// are 0.
template <class E>
[[nodiscard]] norm_result l2norm_mp(const E& executor, tensor_list list, nonfinite_report& report,
                                    where at = where::here()) {
  if (!report.found()) return l2norm(executor, lane::in(list).check(report), at);
  norm_result none;
  none.per_tensor.assign(list.size(), 0.);
  return none;
}

}  // namespace fn
}  // namespace amp
