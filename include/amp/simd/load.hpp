/// Storage to float lanes and back: whole vectors, and the tail of a range through the same vector code.
#pragma once
#include <amp/core/config.hpp>
#include <amp/half_traits.hpp>
#include <amp/simd/vec.hpp>
#include <cstdint>
#include <type_traits>

namespace amp::simd {

/// How much of a vector is in memory: all of it, or the first `count` lanes (0 < count < lanes).
struct full {};
struct part {
  int count;
};

namespace detail {
template <int N, int Bytes>
struct memory_types;
template <int N>
struct memory_types<N, 2> {
  using value = typename raw_types<N>::u16;
  using memory = typename raw_types<N>::u16_memory;
};
template <int N>
struct memory_types<N, 1> {
  using value = typename raw_types<N>::u8;
  using memory = typename raw_types<N>::u8_memory;
};

/// Narrow words to 32 bits. Builtins where GCC 12 would unpack halves and join them again.
template <int N, class Narrow>
AMP_INLINE typename raw_types<N>::u32 widen(const Narrow& narrow) {
#if AMP_X86 && !defined(__clang__)
  using u32 = typename raw_types<N>::u32;
  typedef char i8x16 __attribute__((vector_size(16)));
  typedef short i16x8 __attribute__((vector_size(16)));
  typedef short i16x16 __attribute__((vector_size(32)));
  typedef int i32x16 __attribute__((vector_size(64)));
  if constexpr (N == 16 && sizeof(Narrow) == 32) {
    return (u32)__builtin_ia32_pmovzxwd512_mask((i16x16)narrow, i32x16{}, 0xffffu);
  } else if constexpr (N == 8 && sizeof(Narrow) == 16) {
    return (u32)__builtin_ia32_pmovzxwd256((i16x8)narrow);
  } else if constexpr (N == 16 && sizeof(Narrow) == 16) {
    return (u32)__builtin_ia32_pmovzxbd512_mask((i8x16)narrow, i32x16{}, 0xffffu);
  } else if constexpr (N == 8 && sizeof(Narrow) == 8) {
    typedef long long i64x2 __attribute__((vector_size(16)));
    return (u32)__builtin_ia32_pmovzxbd256((i8x16)i64x2{(long long)narrow, 0});
  } else {
    return __builtin_convertvector(narrow, u32);
  }
#else
  return __builtin_convertvector(narrow, typename raw_types<N>::u32);
#endif
}

template <class T>
struct scalar_memory;
template <>
struct scalar_memory<float> {
  typedef float type __attribute__((may_alias));
};
template <class T>
requires(!std::is_same_v<T, float> && sizeof(T) == 2) struct scalar_memory<T> {
  typedef std::uint16_t type __attribute__((may_alias));
};
template <class T>
requires(sizeof(T) == 1) struct scalar_memory<T> {
  typedef std::uint8_t type __attribute__((may_alias));
};
}  // namespace detail

/// lanes<V> elements of format T from p, widened exactly.
template <class V, Storage T>
AMP_INLINE V load(const T* p, full = {}) {
  if constexpr (std::is_same_v<V, float>) {
    const auto raw = *reinterpret_cast<const typename detail::scalar_memory<T>::type*>(p);
    if constexpr (std::is_same_v<T, float>) {
      return raw;
    } else {
      return from_bits<float>(half_traits<T>::decode(std::uint32_t{raw}));
    }
  } else {
    constexpr int n = lanes<V>;
    if constexpr (std::is_same_v<T, float>) {
      // A value first: a reference to the memory would forget its alignment.
      const typename V::raw_type raw = *reinterpret_cast<const typename detail::raw_types<n>::f32_memory*>(p);
      return V(raw);
    } else {
      using types = detail::memory_types<n, sizeof(T)>;
      const typename types::value narrow = *reinterpret_cast<const typename types::memory*>(p);
      return from_bits<V>(half_traits<T>::decode(detail::widen<n>(narrow)));
    }
  }
}

/// lanes<V> elements rounded to nearest-even into format T at p.
template <class V, Storage T>
AMP_INLINE void store(T* p, const V& x, full = {}) {
  if constexpr (std::is_same_v<V, float>) {
    auto* raw = reinterpret_cast<typename detail::scalar_memory<T>::type*>(p);
    if constexpr (std::is_same_v<T, float>) {
      *raw = x;
    } else {
      *raw = static_cast<typename half_traits<T>::storage_type>(half_traits<T>::encode(bits_of(x)));
    }
  } else {
    constexpr int n = lanes<V>;
    if constexpr (std::is_same_v<T, float>) {
      *reinterpret_cast<typename detail::raw_types<n>::f32_memory*>(p) = x.raw;
    } else {
      using types = detail::memory_types<n, sizeof(T)>;
      const word_of<V> wide = half_traits<T>::encode(bits_of(x));
      *reinterpret_cast<typename types::memory*>(p) = __builtin_convertvector(wide, typename types::value);
    }
  }
}

/// The first `tail.count` lanes; the others read as 0. Nothing beyond them is touched.
template <class V, Storage T>
AMP_INLINE V load(const T* p, part tail) {
  alignas(64) unsigned char buffer[sizeof(T) * static_cast<unsigned>(lanes<V>)] = {};
  __builtin_memcpy(buffer, p, sizeof(T) * static_cast<unsigned>(tail.count));
  return load<V>(reinterpret_cast<const T*>(buffer));
}
template <class V, Storage T>
AMP_INLINE void store(T* p, const V& x, part tail) {
  alignas(64) unsigned char buffer[sizeof(T) * static_cast<unsigned>(lanes<V>)];
  store<V>(reinterpret_cast<T*>(buffer), x);
  __builtin_memcpy(p, buffer, sizeof(T) * static_cast<unsigned>(tail.count));
}

}  // namespace amp::simd
