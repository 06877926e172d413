/// Scales a list and gives the norm of what it was, in one pass over memory.
#pragma once
#include <amp/apply/engine.hpp>
#include <amp/apply/fold.hpp>
#include <amp/apply/plan.hpp>
#include <amp/apply/reduce.hpp>
#include <amp/core/check.hpp>
#include <amp/core/config.hpp>
#include <amp/fn/l2norm.hpp>
#include <amp/fn/norms.hpp>
#include <amp/fn/scale.hpp>
#include <amp/multi_tensor_apply.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace amp {

namespace apply {
struct norm_scale_job {
  lane::output<false> out;
  lane::input<false, false> in;
  fn::Scale scale;
  std::vector<std::int64_t> first_block;
  mutable std::vector<double> partial;
};

/// Each block is summed, then scaled while it lies in the cache: in place, a block that has to be summed again in
/// double is still what it was.
struct norm_scale_kernel {
  template <class V>
  AMP_INLINE static void run(const norm_scale_job& job, const work_item& item) {
    for_each_piece(item, reduction_block, job.in.list, [&](const piece& p) AMP_LAMBDA {
      const auto block = job.first_block[static_cast<std::size_t>(p.tensor)] + p.chunk;
      fold_kernel::one_block<V, 1>(sum_of_squares{}, fn::Magnitude{}, p, job.partial.data() + block, job.in);
      scratch_loop<V>(job.scale, p, job.out, job.in);
    });
  }
};
}  // namespace apply

namespace exec {
template <HostExecutor E>
apply::reduction launch_norm_scale(const E& executor, apply::norm_scale_job& job) {
  const apply::plan plan(job.in.list, apply::reduction_block);
  const auto kernel = simd::kernel<apply::norm_scale_kernel, const apply::norm_scale_job&, const apply::work_item&>(
      simd::resolve(executor.isa()));
  const auto task = [&](std::int64_t i) {
    const simd::flush_scope flush;
    kernel(job, plan.items()[static_cast<std::size_t>(i)]);
  };
  executor.run(static_cast<std::int64_t>(plan.items().size()), plan.elements(), apply::task_ref(task));
  return apply::add_blocks(apply::sum_of_squares{}, job.partial, job.first_block, 1, 0);
}
}  // namespace exec

namespace fn {

/// out = a * in, in place too; returns the norm of `in` before the factor.
/// throws  amp::error naming list (0 out, 1 in) and tensor
template <class E>
norm_result l2norm_scale(const E& executor, tensor_list out, tensor_list in, float a, where at = where::here()) {
  apply::norm_scale_job job{lane::out(out), lane::in(in), Scale{a}, apply::first_blocks(in), {}};
  amp::detail::check_lanes(at, job.out, job.in);
  job.partial.resize(static_cast<std::size_t>(job.first_block.back()));
  using exec::launch_norm_scale;
  return detail::roots(launch_norm_scale(executor, job));
}

}  // namespace fn
}  // namespace amp
