/// Folds of functions over several lanes, per tensor: norms of what a functor computes, without writing it anywhere.
/// Equal bits on every target, executor, thread count and chunk size: blocks of 65,536 elements, 64 logical fp32 lanes,
/// joined in a fixed order (apply/reduce.hpp).
#pragma once
#include <algorithm>
#include <amp/apply/engine.hpp>
#include <amp/apply/exec.hpp>
#include <amp/apply/lanes.hpp>
#include <amp/apply/plan.hpp>
#include <amp/apply/reduce.hpp>
#include <amp/core/config.hpp>
#include <amp/simd/load.hpp>
#include <amp/simd/math.hpp>
#include <amp/simd/target.hpp>
#include <amp/simd/vec.hpp>
#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

namespace amp::apply {

/// How values are folded: `join` in fp32 within a lane, `add` in double between lanes, blocks and tensors. A block
/// whose result is not finite is folded once more in double, by `widen` and `add`, where the fold `rescans`; with
/// `in_double` every block is. 0 must be neutral, for it stands for what lies beyond the end.
struct sum {
  static constexpr bool rescans = true, in_double = false;
  template <class V>
  AMP_HD AMP_INLINE static V join(const V& acc, const V& x) {
    return acc + x;
  }
  static double widen(double x) { return x; }
  static double add(double acc, double x) { return acc + x; }
};
struct sum_of_squares {
  static constexpr bool rescans = true, in_double = false;
  template <class V>
  AMP_HD AMP_INLINE static V join(const V& acc, const V& x) {
    return acc + x * x;
  }
  static double widen(double x) { return x * x; }
  static double add(double acc, double x) { return acc + x; }
};
/// The largest of values that are not negative; a NaN stays.
struct maximum {
  static constexpr bool rescans = false, in_double = false;
  template <class V>
  AMP_HD AMP_INLINE static V join(const V& acc, const V& x) {
    using simd::select;
    return select(acc >= x, acc, select(acc != acc, acc, x));
  }
  static double widen(double x) { return x; }
  static double add(double acc, double x) { return acc >= x || acc != acc ? acc : x; }
};

/// Folds `Results` values of an element. `op(values, x0, x1, ...)` writes them, from one V per lane.
template <class Fold, int Results, class Op, class... L>
struct fold_job {
  Fold fold;
  Op op;
  std::tuple<L...> lanes;
  std::vector<std::int64_t> first_block;  ///< of each tensor, into `partial`
  mutable std::vector<double> partial;    ///< `Results` per block; each is written by one work item
};

struct fold_kernel {
  template <class V, class Fold, int Results, class Op, class... L>
  AMP_INLINE static void run(const fold_job<Fold, Results, Op, L...>& job, const work_item& item) {
    for_each_piece(item, reduction_block, std::get<0>(job.lanes).list, [&](const piece& p) AMP_LAMBDA {
      const auto block = job.first_block[static_cast<std::size_t>(p.tensor)] + p.chunk;
      double* result = job.partial.data() + block * Results;
      const auto op = functor_at(job.op, p);
      [&]<std::size_t... K>(std::index_sequence<K...>) AMP_LAMBDA {
        one_block<V, Results>(job.fold, op, p, result, std::get<K>(job.lanes)...);
      }
      (std::index_sequence_for<L...>{});
    });
  }

  /// The `Results` values of one block of the lanes.
  template <class V, int Results, class Fold, class Op, class... L>
  AMP_INLINE static void one_block(const Fold& fold, const Op op, const piece& p, double* result, const L&... lane) {
    bool done = false;
    if constexpr (!Fold::in_double) {
      alignas(64) float acc[Results][reduction_lanes] = {};
      each_stage<V, V>(
          p, [&](std::int64_t n, auto&&... ref) AMP_LAMBDA { lanes<V, Fold, Results>(op, n, acc, ref...); }, lane...);
      done = true;
      for (int r = 0; r < Results; ++r) {
        result[r] = halve<Fold>(acc[r]);
        done &= result[r] - result[r] == 0.;
      }
    }
    if constexpr (Fold::rescans) {
      if (done) return;
      for (int r = 0; r < Results; ++r) result[r] = 0.;
      each_stage<V, float>(
          p, [&](std::int64_t n, auto&&... ref) AMP_LAMBDA { rescan<Results>(fold, op, n, result, ref...); }, lane...);
    }
  }

 private:
  /// Calls `f(n, refs...)` for the piece, at most scratch_elements at a time, with references that load an X.
  template <class V, class X, class F, class... L>
  AMP_INLINE static void each_stage(const piece& p, const F& f, const L&... lane) {
    alignas(64) float buffer[sizeof...(L)][scratch_elements];
    for (std::int64_t done = 0; done < p.length; done += scratch_elements) {
      const std::int64_t n = std::min(scratch_elements, p.length - done);
      [&]<std::size_t... K>(std::index_sequence<K...>) AMP_LAMBDA {
        f(n, lane.template bind_floats<X>(p.tensor, stage<V>(lane, p.tensor, p.offset + done, n, buffer[K]))...);
      }
      (std::index_sequence_for<L...>{});
    }
  }

  /// A stage is a multiple of 64 elements except at a tensor's end, so lane i % 64 is the same for every split.
  template <class V, class Fold, int Results, class Op, class... Ref>
  AMP_INLINE static void lanes(const Op& op, std::int64_t n, float (*acc)[reduction_lanes], Ref&... ref) {
    constexpr int width = simd::lanes<V>;
    const auto step = [&](std::int64_t i, auto part) AMP_LAMBDA {
      [&]<std::size_t... K>(std::index_sequence<K...>) AMP_LAMBDA {
        V x[sizeof...(Ref)];
        V value[Results];
        (ref.load(i, part, x[K]), ...);
        op(value, std::as_const(x[K])...);
        for (int r = 0; r < Results; ++r) {
          float* to = acc[r] + i % reduction_lanes;
          simd::store(to, Fold::join(simd::load<V>(to), inside(value[r], part)));
        }
      }
      (std::index_sequence_for<Ref...>{});
    };
    std::int64_t i = 0;
    for (; i + width <= n; i += width) step(i, simd::full{});
    if constexpr (width > 1) {
      if (i < n) step(i, simd::part{static_cast<int>(n - i)});
    }
  }
  template <class V>
  AMP_INLINE static V inside(const V& x, simd::full) {
    return x;
  }
  /// 0 in the lanes beyond the end, of which an op may make anything.
  template <class V>
  AMP_INLINE static V inside(const V& x, simd::part part) {
    alignas(64) float kept[simd::lanes<V>] = {};
    simd::store(kept, x, part);
    return simd::load<V>(kept);
  }

  template <int Results, class Fold, class Op, class... Ref>
  AMP_INLINE static void rescan(const Fold& fold, const Op& op, std::int64_t n, double* exact, Ref&... ref) {
    for (std::int64_t i = 0; i < n; ++i) {
      [&]<std::size_t... K>(std::index_sequence<K...>) AMP_LAMBDA {
        float x[sizeof...(Ref)];
        float value[Results];
        (ref.load(i, simd::full{}, x[K]), ...);
        op(value, std::as_const(x[K])...);
        for (int r = 0; r < Results; ++r) exact[r] = Fold::add(exact[r], fold.widen(static_cast<double>(value[r])));
      }
      (std::index_sequence_for<Ref...>{});
    }
  }

  /// Lane k takes lane k + 32, then k + 16, ... 1, in double.
  template <class Fold>
  static double halve(const float* acc) {
    double all[reduction_lanes];
    for (int k = 0; k < reduction_lanes; ++k) all[k] = static_cast<double>(acc[k]);
    for (int width = reduction_lanes / 2; width > 0; width /= 2) {
      for (int k = 0; k < width; ++k) all[k] = Fold::add(all[k], all[k + width]);
    }
    return all[0];
  }
};

/// Result `which` of `results` per block, joined per tensor and in all, in order.
template <class Fold>
[[nodiscard]] reduction add_blocks(const Fold&, const std::vector<double>& partial,
                                   const std::vector<std::int64_t>& first_block, int results, int which) {
  reduction sum;
  sum.per_tensor.reserve(first_block.size() - 1);
  for (std::size_t t = 0; t + 1 < first_block.size(); ++t) {
    double value = 0;
    for (auto b = first_block[t]; b < first_block[t + 1]; ++b) {
      value = Fold::add(value, partial[static_cast<std::size_t>(b * results + which)]);
    }
    sum.per_tensor.push_back(value);
    sum.total = Fold::add(sum.total, value);
  }
  return sum;
}

}  // namespace amp::apply

namespace amp::exec {

/// The host's fold; other executors bring their own `launch_fold`, found by argument lookup.
template <int Results, HostExecutor E, class Fold, class Op, lane::Lane... L>
std::array<apply::reduction, static_cast<std::size_t>(Results)> launch_fold(std::integral_constant<int, Results>,
                                                                            const E& executor, const Fold& fold,
                                                                            const Op& op, const L&... lanes) {
  using Job = apply::fold_job<Fold, Results, Op, L...>;
  Job job{fold, op, {lanes...}, {}, {}};
  const tensor_list list = std::get<0>(job.lanes).list;
  const apply::plan plan(list, apply::reduction_block);
  job.first_block = apply::first_blocks(list);
  job.partial.resize(static_cast<std::size_t>(job.first_block.back() * Results));
  const auto kernel =
      simd::kernel<apply::fold_kernel, const Job&, const apply::work_item&>(simd::resolve(executor.isa()));
  const auto task = [&](std::int64_t i) {
    const simd::flush_scope flush;
    kernel(job, plan.items()[static_cast<std::size_t>(i)]);
  };
  executor.run(static_cast<std::int64_t>(plan.items().size()), plan.elements(), apply::task_ref(task));

  std::array<apply::reduction, static_cast<std::size_t>(Results)> all;
  for (int r = 0; r < Results; ++r) {
    all[static_cast<std::size_t>(r)] = apply::add_blocks(fold, job.partial, job.first_block, Results, r);
  }
  return all;
}

}  // namespace amp::exec

namespace amp::apply {

/// Folds what `op` makes of each element of the lanes: `op(V (&values)[Results], const V&... x)`; a member `at(piece)`
/// may choose an op per tensor. Returns a reduction (per tensor, and in all) per value.
/// types   any lanes; they are read only
template <int Results, class E, class Fold, class Op, lane::Lane... L>
[[nodiscard]] auto fold(const E& executor, const Fold& how, const Op& op, const L&... lanes) {
  using exec::launch_fold;
  return launch_fold(std::integral_constant<int, Results>{}, executor, how, op, lanes...);
}

}  // namespace amp::apply
