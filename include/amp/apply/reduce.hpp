/// Fixed-order sums over lists: equal bits on every target, executor, thread count and chunk size.
/// A sum is defined on blocks of 65,536 elements and 64 logical fp32 lanes (element i belongs to lane i % 64), joined
/// by a halving tree in double; blocks are added in order in double, and so are tensors.
#pragma once
#include <algorithm>
#include <amp/apply/engine.hpp>
#include <amp/apply/exec.hpp>
#include <amp/apply/lanes.hpp>
#include <amp/apply/plan.hpp>
#include <amp/core/config.hpp>
#include <amp/half_traits.hpp>
#include <amp/simd/load.hpp>
#include <amp/simd/target.hpp>
#include <amp/simd/vec.hpp>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

namespace amp::apply {

inline constexpr std::int64_t reduction_block = 65536;
inline constexpr int reduction_lanes = 64;

struct reduction {
  double total = 0;
  std::vector<double> per_tensor;  ///< 0 for a tensor without elements
};

/// The summand of a sum of squares.
struct square {
  template <class V>
  AMP_HD AMP_INLINE V operator()(const V& x) const {
    return x * x;
  }
};

/// The sum of 64 lanes in double: lane k takes lane k + 32, then k + 16, ... 1. Eight at a time, which changes no
/// result.
AMP_INLINE double halving_tree(const float* lane) {
  typedef float f32x8 __attribute__((vector_size(32), aligned(4), may_alias));
  typedef double f64x8 __attribute__((vector_size(64)));
  const auto eight = [&](int j) AMP_LAMBDA {
    const f32x8 x = *reinterpret_cast<const f32x8*>(lane + 8 * j);
    return __builtin_convertvector(x, f64x8);
  };
  const f64x8 s0 = eight(0) + eight(4), s1 = eight(1) + eight(5), s2 = eight(2) + eight(6), s3 = eight(3) + eight(7);
  const f64x8 s = (s0 + s2) + (s1 + s3);
  return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

/// One block in fp32 lanes; n <= reduction_block.
template <class V, class T, bool Scaled, class Op>
AMP_INLINE double sum_block(const Op op, const T* p, std::int64_t n, float scale) {
  constexpr int width = simd::lanes<V>;
  constexpr int vectors = reduction_lanes / width;
  alignas(64) std::array<float, reduction_lanes> lane{};
  alignas(64) T rest[reduction_lanes] = {};
  const std::int64_t whole = n - n % reduction_lanes;
  if (whole < n) std::memcpy(static_cast<void*>(rest), p + whole, static_cast<std::size_t>(n - whole) * sizeof(T));
  const auto value = [&](const T* from) AMP_LAMBDA {
    V x = simd::load<V>(from);
    if constexpr (Scaled) x = scale * x;
    return x;
  };
  if constexpr (width == 1) {
    const auto group = [&](const T* from) AMP_LAMBDA {
      for (int k = 0; k < vectors; ++k) lane[static_cast<std::size_t>(k)] += op(value(from + k));
    };
    for (std::int64_t i = 0; i < whole; i += reduction_lanes) group(p + i);
    if (whole < n) group(rest);
  } else {
    [&]<int... K>(std::integer_sequence<int, K...>) AMP_LAMBDA {
      V acc[vectors] = {((void)K, V(0.f))...};
      const auto group = [&](const T* from) AMP_LAMBDA { ((acc[K] = acc[K] + op(value(from + K * width))), ...); };
      for (std::int64_t i = 0; i < whole; i += reduction_lanes) group(p + i);
      if (whole < n) group(rest);
      (simd::store(lane.data() + K * width, acc[K]), ...);
    }
    (std::make_integer_sequence<int, vectors>{});
  }
  return halving_tree(lane.data());
}

/// The same block in double, one element after the other: where fp32 squares overflowed (values over 1.8e19), or where
/// an element is infinite or NaN, which the sum then is too.
template <class T, bool Scaled, class Op>
AMP_NOINLINE double sum_block_exactly(const Op op, const T* p, std::int64_t n, float scale) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    float x = simd::load<float>(p + i);
    if constexpr (Scaled) x = scale * x;
    sum += op(static_cast<double>(x));
  }
  return sum;
}

/// A block of any other format, decoded 512 elements at a time; the same sums.
template <class V, bool Scaled, class Op>
AMP_INLINE double sum_decoded(const Op op, const tensor_view& tensor, const piece& p, float scale) {
  constexpr int width = simd::lanes<V>;
  alignas(64) float lane[reduction_lanes] = {};
  alignas(64) float buffer[scratch_elements] = {};
  double exact = 0;
  for (std::int64_t done = 0; done < p.length; done += scratch_elements) {
    const std::int64_t n = std::min(scratch_elements, p.length - done);
    decode<V>(tensor, p.offset + done, n, buffer);
    for (std::int64_t i = n; i < scratch_elements && i % width != 0; ++i) buffer[i] = 0.f;
    for (std::int64_t i = 0; i < n; i += width) {
      V x = simd::load<V>(buffer + i);
      if constexpr (Scaled) x = scale * x;
      float* to = lane + i % reduction_lanes;
      simd::store(to, simd::load<V>(to) + op(x));
    }
  }
  const double sum = halving_tree(lane);
  if (std::abs(sum) <= std::numeric_limits<double>::max()) return sum;
  for (std::int64_t done = 0; done < p.length; done += scratch_elements) {
    const std::int64_t n = std::min(scratch_elements, p.length - done);
    decode<V>(tensor, p.offset + done, n, buffer);
    for (std::int64_t i = 0; i < n; ++i) exact += op(static_cast<double>(Scaled ? scale * buffer[i] : buffer[i]));
  }
  return exact;
}

/// Where the blocks of each tensor start among those of all; one entry more for the end.
[[nodiscard]] inline std::vector<std::int64_t> first_blocks(tensor_list list) {
  std::vector<std::int64_t> first;
  first.reserve(list.size() + 1);
  std::int64_t blocks = 0;
  for (const auto& tensor : list) {
    first.push_back(blocks);
    blocks += (tensor.size + reduction_block - 1) / reduction_block;
  }
  first.push_back(blocks);
  return first;
}

template <class Op, bool Scaled, bool Checked>
struct reduce_job {
  Op op;
  lane::input<Scaled, Checked> lane;
  std::vector<std::int64_t> first_block;  ///< of each tensor, into `partial`
  mutable std::vector<double> partial;    ///< each element is written by one work item
};

struct reduce_kernel {
  template <class V, class Op, bool Scaled, bool Checked>
  AMP_INLINE static void run(const reduce_job<Op, Scaled, Checked>& job, const work_item& item) {
    for_each_piece(item, reduction_block, job.lane.list, [&](const piece& p) AMP_LAMBDA {
      const tensor_view& tensor = job.lane.tensor(p.tensor);
      double sum = 0;
      const bool done = attempt<V, bfloat16, Scaled>(job.op, tensor, p, job.lane.scale, sum) ||
                        attempt<V, half, Scaled>(job.op, tensor, p, job.lane.scale, sum) ||
                        attempt<V, float, Scaled>(job.op, tensor, p, job.lane.scale, sum);
      if (!done) sum = sum_decoded<V, Scaled>(job.op, tensor, p, job.lane.scale);
      job.partial[static_cast<std::size_t>(job.first_block[static_cast<std::size_t>(p.tensor)] + p.chunk)] = sum;
    });
  }

 private:
  template <class V, class T, bool Scaled, class Op>
  AMP_INLINE static bool attempt(const Op& op, const tensor_view& tensor, const piece& p, float scale, double& sum) {
    if (tensor.type != half_traits<T>::id) return false;
    const T* from = static_cast<const T*>(tensor.data) + p.offset;
    sum = sum_block<V, T, Scaled>(op, from, p.length, scale);
    if (!(std::abs(sum) <= std::numeric_limits<double>::max())) {
      sum = sum_block_exactly<T, Scaled>(op, from, p.length, scale);
    }
    return true;
  }
};

}  // namespace amp::apply

namespace amp::exec {

/// The host's reduction: the sum of `op(x)` over all elements of a read lane.
template <HostExecutor E, class Op, bool Scaled, bool Checked>
apply::reduction launch_sum(const E& executor, const Op& op, const lane::input<Scaled, Checked>& lane) {
  const apply::plan plan(lane.list, apply::reduction_block);
  apply::reduce_job<Op, Scaled, Checked> job{op, lane, apply::first_blocks(lane.list), {}};
  job.partial.resize(static_cast<std::size_t>(job.first_block.back()));

  const auto kernel =
      simd::kernel<apply::reduce_kernel, const decltype(job)&, const apply::work_item&>(simd::resolve(executor.isa()));
  const auto task = [&](std::int64_t i) {
    const simd::flush_scope flush;
    kernel(job, plan.items()[static_cast<std::size_t>(i)]);
  };
  executor.run(static_cast<std::int64_t>(plan.items().size()), plan.elements(), apply::task_ref(task));

  apply::reduction result;
  result.per_tensor.reserve(lane.list.size());
  for (std::size_t t = 0; t < lane.list.size(); ++t) {
    double sum = 0;
    for (auto b = job.first_block[t]; b < job.first_block[t + 1]; ++b) sum += job.partial[static_cast<std::size_t>(b)];
    result.per_tensor.push_back(sum);
    result.total += sum;
  }
  return result;
}

}  // namespace amp::exec
