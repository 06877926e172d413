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

/// The norm of a read lane: `l2norm(executor, lane::in(gradients, inv_scale))` is the norm of the unscaled gradients,
/// which are not written. Sums in fp32 lanes and double (apply/reduce.hpp): finite elements always give a finite norm.
/// throws  amp::error for a malformed list
template <class E, bool Scaled, bool Checked>
[[nodiscard]] norm_result l2norm(const E& executor, const lane::input<Scaled, Checked>& lane,
                                 where at = where::here()) {
  amp::detail::check_lanes(at, lane);
  apply::reduction sums = launch_sum(executor, apply::square{}, lane);
  norm_result result;
  result.per_tensor = std::move(sums.per_tensor);
  for (std::size_t t = 0; t < result.per_tensor.size(); ++t) {
    double& value = result.per_tensor[t];
    if (!std::isfinite(value) && result.finite) {
      result.finite = false;
      result.first_nonfinite = static_cast<std::int64_t>(t);
    }
    value = std::sqrt(value);
  }
  result.total = std::sqrt(sums.total);
  if constexpr (Checked) lane.report->add(result.first_nonfinite);
  return result;
}
template <class E>
[[nodiscard]] norm_result l2norm(const E& executor, tensor_list list, where at = where::here()) {
  return l2norm(executor, lane::in(list), at);
}

}  // namespace fn
}  // namespace amp
