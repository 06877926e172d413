/// Runs a functor over the work items of a plan on the CPU: fused loops for frequent sets of formats, a scratch path
/// for every other one, with equal bits.
#pragma once
#include <algorithm>
#include <amp/apply/exec.hpp>
#include <amp/apply/lanes.hpp>
#include <amp/apply/plan.hpp>
#include <amp/core/config.hpp>
#include <amp/half_traits.hpp>
#include <amp/simd/bytes.hpp>
#include <amp/simd/load.hpp>
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

/// A lane that is only read reaches the functor as const: lists in the wrong order do not compile.
template <class Ref, class V>
AMP_INLINE auto& lane_argument(V& x) {
  if constexpr (std::remove_cvref_t<Ref>::writes) {
    return x;
  } else {
    return std::as_const(x);
  }
}

/// Runs `f` over n elements of the bound lanes. Returns a bit per lane that met a non-finite element.
template <class V, class F, class... Ref>
AMP_INLINE unsigned loop(const F& functor, std::int64_t n, Ref&&... ref) {
  constexpr int width = simd::lanes<V>;
  const F f = functor;  // a copy that no store can alias, so its fields stay in registers
  const auto go = [&](std::int64_t i, auto part) AMP_LAMBDA {
    [&]<std::size_t... K>(std::index_sequence<K...>) AMP_LAMBDA {
      V x[sizeof...(Ref)];
      (ref.load(i, part, x[K]), ...);
      f(lane_argument<Ref>(x[K])...);
      (ref.store(i, part, x[K]), ...);
    }
    (std::index_sequence_for<Ref...>{});
  };
  std::int64_t i = 0;
  for (; i + width <= n; i += width) go(i, simd::full{});
  if constexpr (width > 1) {
    if (i < n) go(i, simd::part{static_cast<int>(n - i)});
  }
  unsigned bit = 1;
  unsigned found = 0;
  ((found |= ref.found() ? bit : 0u, bit <<= 1), ...);
  return found;
}

/// Whole-array conversions of the scratch path, compiled once per format and target.
template <class T>
struct decode_kernel {
  template <class V>
  AMP_INLINE static void run(const void* from, std::int64_t n, float* to) {
    const auto copy = [](const V& x, V& y) AMP_LAMBDA { y = x; };
    loop<V>(copy, n, lane::ref::input<V, T, false, false>{static_cast<const T*>(from), 1.f},
            lane::ref::output<V, float, false>{to, 0});
  }
};
template <class T>
struct encode_kernel {
  template <class V>
  AMP_INLINE static void run(const float* from, std::int64_t n, void* to) {
    const auto copy = [](const V& x, V& y) AMP_LAMBDA { y = x; };
    loop<V>(copy, n, lane::ref::input<V, float, false, false>{from, 1.f},
            lane::ref::output<V, T, false>{static_cast<T*>(to), 0});
  }
};

/// An 8-bit format shares code with the others, short of the frequent ones where vectors of its own are faster.
template <class V, class T>
inline constexpr bool shares_byte_code = sizeof(T) == 1 && !(simd::lanes<V> == 16 &&
                                                             (std::is_same_v<T, e4m3> || std::is_same_v<T, e5m2>));

template <class V>
void decode(const tensor_view& tensor, std::int64_t offset, std::int64_t n, float* to) {
  visit(tensor.type, [&]<class T>(std::type_identity<T>) {
    const T* const from = static_cast<const T*>(tensor.data) + offset;
    if constexpr (shares_byte_code<V, T>) {
      simd::decode_bytes(reinterpret_cast<const std::uint8_t*>(from), n, to, simd::byte_values<T>);
    } else {
      simd::call_kernel<V, decode_kernel<T>, const void*>(from, n, to);
    }
  });
}
template <class V>
void encode(const float* from, std::int64_t n, const tensor_view& tensor, std::int64_t offset) {
  visit(tensor.type, [&]<class T>(std::type_identity<T>) {
    T* const to = static_cast<T*>(tensor.data) + offset;
    if constexpr (shares_byte_code<V, T>) {
      simd::call_kernel<V, simd::encode_bytes, const float*, std::int64_t, std::uint8_t*, const simd::byte_format&>(
          from, n, reinterpret_cast<std::uint8_t*>(to), simd::byte_format_of<T>);
    } else {
      simd::call_kernel<V, encode_kernel<T>, const float*, std::int64_t, void*>(from, n, to);
    }
  });
}

/// Elements of each lane that the scratch path holds as floats at a time; five lanes fit in L1 beside their sources.
inline constexpr std::int64_t scratch_elements = 512;

/// Where the floats of a lane lie for n elements: in the tensor itself if it is fp32, else decoded into `buffer`. A
/// lane that is stored in some other way brings its own `stage` and `unstage`.
template <class V, class L>
float* stage(const L& lane, std::int64_t t, std::int64_t offset, std::int64_t n, float* buffer) {
  if constexpr (requires { lane.template stage<V>(t, offset, n, buffer); }) {
    return lane.template stage<V>(t, offset, n, buffer);
  } else {
    const tensor_view& tensor = lane.tensor(t);
    if (tensor.type == dtype::fp32) return static_cast<float*>(tensor.data) + offset;
    if constexpr (L::reads) decode<V>(tensor, offset, n, buffer);
    return buffer;
  }
}
template <class V, class L>
void unstage(const L& lane, std::int64_t t, std::int64_t offset, std::int64_t n, const float* values) {
  if constexpr (requires { lane.template unstage<V>(t, offset, n, values); }) {
    lane.template unstage<V>(t, offset, n, values);
  } else if constexpr (L::writes) {
    const tensor_view& tensor = lane.tensor(t);
    if (tensor.type != dtype::fp32) encode<V>(values, n, tensor, offset);
    if constexpr (L::copies) {
      if (lane.copy(t).data != nullptr) encode<V>(values, n, lane.copy(t), offset);
    }
  }
}

/// Whether a lane's floats are the tensor's own memory, and nothing else is written.
template <class V, class L>
bool direct(const L& lane, std::int64_t t) {
  if constexpr (requires { lane.direct(t); }) return lane.direct(t);
  if constexpr (requires { lane.template stage<V>(t, t, t, nullptr); }) return false;
  if (lane.tensor(t).type != dtype::fp32) return false;
  if constexpr (L::copies) return lane.copy(t).data == nullptr;
  return true;
}

/// Any formats: lanes that are not fp32 pass through buffers, 512 elements at a time.
template <class V, class F, class... L>
AMP_INLINE unsigned scratch_loop(const F& f, const piece& p, const L&... lane) {
  alignas(64) float buffer[sizeof...(L)][scratch_elements];
  const std::int64_t step = (direct<V>(lane, p.tensor) && ...) ? p.length : scratch_elements;
  unsigned found = 0;
  for (std::int64_t done = 0; done < p.length; done += step) {
    const std::int64_t n = std::min(step, p.length - done);
    const std::int64_t offset = p.offset + done;
    [&]<std::size_t... K>(std::index_sequence<K...>) AMP_LAMBDA {
      float* const values[] = {stage<V>(lane, p.tensor, offset, n, buffer[K])...};
      found |= loop<V>(f, n, lane.template bind_floats<V>(p.tensor, values[K])...);
      (unstage<V>(lane, p.tensor, offset, n, values[K]), ...);
    }
    (std::index_sequence_for<L...>{});
  }
  return found;
}

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
