/// Runs a functor over the work items of a plan on the CPU: fused loops for frequent sets of formats, a scratch path
/// for every other one, with equal bits.
#pragma once
#include <algorithm>
#include <amp/apply/exec.hpp>
#include <amp/apply/lanes.hpp>
#include <amp/apply/plan.hpp>
#include <amp/apply/scratch.hpp>
#include <amp/core/config.hpp>
#include <amp/half_traits.hpp>
#include <amp/simd/target.hpp>
#include <amp/simd/vec.hpp>
#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>

namespace amp::apply {

/// The formats of read lanes, written lanes and copies that a fused loop serves; inout lanes are fp32 in all of them.
template <class In, class Out, class Copy>
struct format_set {};

/// Lanes of weights that may have remainders.
template <class L>
inline constexpr bool may_split = requires {
  requires L::splits;
};

/// The frequent sets for these lanes and a low format T. Tuning only: every other set takes the scratch path.
template <class T, class... L>
struct frequent_sets {
  static constexpr bool has_in = ((L::reads && !L::writes) || ...);
  static constexpr bool has_out = ((L::writes && !L::reads) || ...);
  static constexpr bool has_inout = ((L::writes && L::reads) || ...);
  static constexpr bool has_copy = (L::copies || ...);
  static constexpr bool all_low = has_in || has_out || has_copy;                        // low gradients, low model copy
  static constexpr bool low_in = has_in && (has_out || has_copy);                       // low gradients, fp32 model
  static constexpr bool low_out = has_in && has_out && !has_inout;                      // fp32 to low: master to model
  static constexpr bool splits = std::is_same_v<T, bfloat16> && (may_split<L> || ...);  // remainders beside weights
};

/// Lanes that a user brings may do without fused loops: they need no `matches` and `bind`.
template <class L>
inline constexpr bool fusable = requires(const L& lane) {
  lane.template matches<float, float, lane::none>(0);
};

/// Calls the first fused loop whose formats are those of the tensors; false if there is none.
template <class V, class T, class F, class... L>
AMP_INLINE bool fused_loop(unsigned& found, const F& f, const piece& p, const L&... lane) {
  using sets = frequent_sets<T, L...>;
  const auto attempt = [&]<class In, class Out, class Copy>(format_set<In, Out, Copy>) AMP_LAMBDA {
    if (!(lane.template matches<In, Out, Copy>(p.tensor) && ...)) return false;
    found |= loop<V>(f, p.length, lane.template bind<V, In, Out, Copy>(p.tensor, p.offset)...);
    return true;
  };
  if constexpr (sets::all_low) {
    if (attempt(format_set<T, T, T>{})) return true;
  }
  if constexpr (sets::low_in) {
    if (attempt(format_set<T, float, lane::none>{})) return true;
  }
  if constexpr (sets::low_out) {
    if (attempt(format_set<float, T, T>{})) return true;
  }
  if constexpr (sets::splits) {
    if (attempt(format_set<T, T, lane::split<float>>{})) return true;
    if (attempt(format_set<T, T, lane::split<T>>{})) return true;
  }
  return false;
}

/// One call of multi_tensor_apply.
template <class F, class... L>
struct job {
  const F& functor;
  std::tuple<L...> lanes;
  std::int64_t chunk;
  bool fused;
  /// Per lane, the smallest index of a tensor with a non-finite element.
  mutable std::array<std::atomic<std::int64_t>, sizeof...(L)> first{};
};

inline void lower_to(std::atomic<std::int64_t>& lowest, std::int64_t value) noexcept {
  for (auto seen = lowest.load(std::memory_order_relaxed);
       value < seen && !lowest.compare_exchange_weak(seen, value, std::memory_order_relaxed);) {
  }
}

/// A functor may differ from tensor to tensor: then it has `at(piece)`, which returns the one to use.
template <class F>
AMP_INLINE auto functor_at(const F& f, const piece& p) {
  if constexpr (requires { f.at(p); }) {
    return f.at(p);
  } else {
    return f;
  }
}

/// A functor of the "noop" kind has `skips()`, which reads a flag: while it is true nothing is touched.
template <class F>
AMP_HD AMP_INLINE bool skipped(const F& f) {
  if constexpr (requires { f.skips(); }) {
    return f.skips();
  } else {
    return false;
  }
}

/// Body of the kernel wrappers: one work item of one job.
struct item_kernel {
  template <class V, class F, class... L>
  AMP_INLINE static void run(const job<F, L...>& work, const work_item& item) {
    if (skipped(work.functor)) return;
    [&]<std::size_t... K>(std::index_sequence<K...>) AMP_LAMBDA {
      run_lanes<V>(work, item, std::get<K>(work.lanes)...);
    }
    (std::index_sequence_for<L...>{});
  }

 private:
  template <class V, class F, class... L>
  AMP_INLINE static void run_lanes(const job<F, L...>& work, const work_item& item, const L&... lane) {
    const tensor_list sizes = std::get<0>(work.lanes).list;
    for_each_piece(item, work.chunk, sizes, [&](const piece& p) AMP_LAMBDA {
      const auto f = functor_at(work.functor, p);
      unsigned found = 0;
      bool done = false;
      // the scalar reference is not worth the compile time
      if constexpr (simd::lanes < V >> 1 && (fusable<L> && ...)) {
        done =
            work.fused && (fused_loop<V, bfloat16>(found, f, p, lane...) || fused_loop<V, half>(found, f, p, lane...));
      }
      if (!done) found = scratch_loop<V>(f, p, lane...);
      for (std::size_t k = 0; found != 0; ++k, found >>= 1) {
        if ((found & 1u) != 0) lower_to(work.first[k], p.tensor);
      }
    });
  }
};

template <class L>
nonfinite_report* report_of(const L& lane) noexcept {
  if constexpr (L::checked) return lane.report;
  return nullptr;
}

}  // namespace amp::apply

namespace amp::exec {

/// The host's launch: other executors bring their own, found by argument lookup.
template <HostExecutor E, class F, lane::Lane... L>
void launch(const E& executor, const apply::plan& plan, const F& functor, const L&... lanes) {
  using Job = apply::job<F, L...>;
  const Job job{functor, {lanes...}, plan.chunk(), executor.fused};
  for (auto& first : job.first) first.store(std::numeric_limits<std::int64_t>::max(), std::memory_order_relaxed);
  const auto kernel =
      simd::kernel<apply::item_kernel, const Job&, const apply::work_item&>(simd::resolve(executor.isa()));
  const auto task = [&](std::int64_t i) {
    const simd::flush_scope flush;
    kernel(job, plan.items()[static_cast<std::size_t>(i)]);
  };
  executor.run(static_cast<std::int64_t>(plan.items().size()), plan.elements(), apply::task_ref(task));

  const std::array<nonfinite_report*, sizeof...(L)> reports{apply::report_of(lanes)...};
  for (std::size_t k = 0; k < reports.size(); ++k) {
    if (reports[k] == nullptr) continue;
    std::int64_t lowest = job.first[k].load(std::memory_order_relaxed);
    for (std::size_t j = k + 1; j < reports.size(); ++j) {  // two lanes may share a report
      if (reports[j] == reports[k]) lowest = std::min(lowest, job.first[j].load(std::memory_order_relaxed));
    }
    if (lowest != std::numeric_limits<std::int64_t>::max()) reports[k]->add(lowest);
  }
}

}  // namespace amp::exec
