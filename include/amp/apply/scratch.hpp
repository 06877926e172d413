/// The loop under every pass, and the scratch path: lanes of any format as floats in buffers that fit in L1.
#pragma once
#include <algorithm>
#include <amp/apply/lanes.hpp>
#include <amp/apply/plan.hpp>
#include <amp/core/config.hpp>
#include <amp/half_traits.hpp>
#include <amp/simd/bytes.hpp>
#include <amp/simd/load.hpp>
#include <amp/simd/target.hpp>
#include <amp/simd/vec.hpp>
#include <cstddef>
#include <cstdint>
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

}  // namespace amp::apply
