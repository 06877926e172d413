/// Out-of-line loops between floats and the forms that weights and moments are kept in; compiled once per target.
#pragma once
#include <amp/apply/engine.hpp>
#include <amp/apply/lanes.hpp>
#include <amp/core/config.hpp>
#include <amp/half_traits.hpp>
#include <amp/simd/load.hpp>
#include <amp/simd/math.hpp>
#include <amp/simd/random.hpp>
#include <amp/simd/vec.hpp>
#include <cstdint>
#include <type_traits>

namespace amp {
namespace apply {
/// 16 bits of an fp32 word, as they are.
struct word_half {
  std::uint16_t bits;
};
}  // namespace apply

template <>
struct half_traits<apply::word_half> {
  static constexpr dtype id = dtype::bf16;
  using storage_type = std::uint16_t;
  template <class U>
  AMP_HD AMP_INLINE static constexpr U encode(const U& x) {
    return x >> 16;
  }
  template <class U>
  AMP_HD AMP_INLINE static constexpr U decode(const U& h) {
    return h << 16;
  }
};

namespace apply {

template <class T, class V>
using read_ref = lane::ref::input<V, T, false, false>;
template <class T, class V>
using write_ref = lane::ref::output<V, T, false>;

/// The fp32 word of a bf16 weight and its remainder. The weight is the word's upper half, plus 1 where the lower half
/// has its top bit set.
template <class V>
AMP_INLINE V joined(const V& upper, const V& lower) {
  const simd::word_of<V> low = simd::bits_of(lower);
  return simd::from_bits<V>(simd::bits_of(upper) - ((low >> 31) << 16) + (low >> 16));
}
template <class V>
AMP_INLINE V upper_half(const V& x) {
  return simd::from_bits<V>(simd::bits_of(x) + 0x8000u);
}
template <class V>
AMP_INLINE V lower_half(const V& x) {
  return simd::from_bits<V>(simd::bits_of(x) << 16);
}
struct join_remainder {
  template <class V>
  AMP_INLINE static void run(const word_half* weight, const word_half* rest, std::int64_t n, float* to) {
    const auto join = [](const V& upper, const V& lower, V& x) AMP_LAMBDA { x = joined(upper, lower); };
    loop<V>(join, n, read_ref<word_half, V>{weight, 1.f}, read_ref<word_half, V>{rest, 1.f},
            write_ref<float, V>{to, 0});
  }
};
struct split_remainder {
  template <class V>
  AMP_INLINE static void run(const float* from, std::int64_t n, word_half* weight, word_half* rest) {
    const auto split = [](const V& x, V& upper, V& lower) AMP_LAMBDA {
      upper = upper_half(x);
      lower = lower_half(x);
    };
    loop<V>(split, n, read_ref<float, V>{from, 1.f}, write_ref<word_half, V>{weight, 0},
            write_ref<word_half, V>{rest, 0});
  }
};

/// A low weight plus what its rounding left, in bf16.
template <class T>
struct join_compensation {
  template <class V>
  AMP_INLINE static void run(const T* weight, const bfloat16* rest, std::int64_t n, float* to) {
    const auto join = [](const V& w, const V& c, V& x) AMP_LAMBDA { x = w + c; };
    loop<V>(join, n, read_ref<T, V>{weight, 1.f}, read_ref<bfloat16, V>{rest, 1.f}, write_ref<float, V>{to, 0});
  }
};
template <class T>
struct split_compensation {
  template <class V>
  AMP_INLINE static void run(const float* from, std::int64_t n, T* weight, bfloat16* rest) {
    const auto split = [](const V& x, V& w, V& c) AMP_LAMBDA {
      w = simd::from_bits<V>(half_traits<T>::decode(half_traits<T>::encode(simd::bits_of(x))));
      c = simd::select(simd::isfinite(w), x - w, V(0.f));  // inf - inf would make a NaN of an infinite weight
    };
    loop<V>(split, n, read_ref<float, V>{from, 1.f}, write_ref<T, V>{weight, 0}, write_ref<bfloat16, V>{rest, 0});
  }
};

/// What a stored value stands for: it times its scale, squared where the root is stored.
template <class V>
AMP_INLINE V times_scale(const V& stored, const V& scale, bool root) {
  const V r = stored * scale;
  return root ? r * r : r;
}
/// The quotient that is then rounded into the format. A positive root never becomes 0: `least`, the format's smallest
/// positive number, stands in for it, since steps divide by these roots.
template <class V>
AMP_INLINE V over_scale(const V& x, const V& scale, const V& least, bool root) {
  if (!root) return x / scale;
  const V q = simd::sqrt(x) / scale;
  return simd::select(V(0.f) < x, simd::max(q, least), q);
}
/// T is the stored format, or float for values that are decoded already and quotients that are encoded next.
template <class T>
struct multiply_scale {
  template <class V>
  AMP_INLINE static void run(const T* from, std::int64_t n, float scale, bool root, float* to) {
    const V s(scale);
    const auto multiply = [&s, root](const V& x, V& y) AMP_LAMBDA { y = times_scale(x, s, root); };
    loop<V>(multiply, n, read_ref<T, V>{from, 1.f}, write_ref<float, V>{to, 0});
  }
};
template <class T>
struct divide_scale {
  template <class V>
  AMP_INLINE static void run(const float* from, std::int64_t n, float scale, float least, bool root, T* to) {
    const V s(scale), l(least);
    const auto divide = [&s, &l, root](const V& x, V& y) AMP_LAMBDA { y = over_scale(x, s, l, root); };
    loop<V>(divide, n, read_ref<float, V>{from, 1.f}, write_ref<T, V>{to, 0});
  }
};

/// The random words of n elements from `first` on.
struct draw_words {
  template <class V>
  AMP_INLINE static void run(std::uint64_t seed, std::uint64_t stream, std::int64_t first, std::int64_t n,
                             std::uint32_t* to) {
    simd::random_words<V>(seed, stream, first, n, to);
  }
};
/// Rounds up or down at random, a word an element. `words` has room for whole vectors.
template <class T>
struct encode_random {
  template <class V>
  AMP_INLINE static void run(const float* from, const std::uint32_t* words, std::int64_t n, T* to) {
    constexpr int width = simd::lanes<V>;
    std::int64_t i = 0;
    for (; i + width <= n; i += width)
      simd::store_stochastic<V>(to + i, simd::load<V>(from + i), word_at<V>(words + i));
    if constexpr (width > 1) {
      const simd::part tail{static_cast<int>(n - i)};
      if (i < n) simd::store_stochastic<V>(to + i, simd::load<V>(from + i, tail), word_at<V>(words + i), tail);
    }
  }

 private:
  template <class V>
  AMP_INLINE static simd::word_of<V> word_at(const std::uint32_t* words) {
    return simd::load_words<V>(words);
  }
};

/// The bits of the largest magnitude; a NaN counts as larger than infinity.
struct find_peak {
  template <class V>
  AMP_INLINE static void run(const float* from, std::int64_t n, std::uint32_t* peak) {
    using U = simd::word_of<V>;
    using I = amp::detail::signed_of<U>;
    constexpr int width = simd::lanes<V>;
    U most{};
    const auto see = [&](const V& x) AMP_LAMBDA {
      const U magnitude = simd::bits_of(x) & 0x7fffffffu;
      most = (I)magnitude > (I)most ? magnitude : most;
    };
    std::int64_t i = 0;
    for (; i + width <= n; i += width) see(simd::load<V>(from + i));
    if constexpr (width > 1) {
      if (i < n) see(simd::load<V>(from + i, simd::part{static_cast<int>(n - i)}));
    }
    alignas(64) float lanes[width];
    simd::store(lanes, simd::from_bits<V>(most));
    std::uint32_t largest = 0;
    for (const float x : lanes) {
      const auto bits = __builtin_bit_cast(std::uint32_t, x);
      largest = bits > largest ? bits : largest;
    }
    *peak = largest;
  }
};

}  // namespace apply
}  // namespace amp
