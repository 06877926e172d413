/// Philox on vectors: the random words of consecutive elements, the same on every target (core/philox.hpp).
#pragma once
#include <amp/core/config.hpp>
#include <amp/core/philox.hpp>
#include <amp/simd/load.hpp>
#include <amp/simd/vec.hpp>
#include <cstdint>
#include <utility>

namespace amp::simd {

namespace detail {
/// 32x32 -> 64 bits of the even lanes. Builtins, because GCC 12 multiplies 64x64 bits otherwise.
template <int N>
AMP_INLINE typename raw_types<N>::u64 multiply_even(const typename raw_types<N>::u32& x,
                                                    const typename raw_types<N>::u32& y) {
  using u64 = typename raw_types<N>::u64;
#if AMP_X86 && !defined(__clang__)
  using i32 = typename raw_types<N>::i32;
  typedef long long i64x8 __attribute__((vector_size(64)));
  if constexpr (N == 16) return (u64)__builtin_ia32_pmuludq512_mask((i32)x, (i32)y, i64x8{}, 0xff);
  if constexpr (N == 8) return (u64)__builtin_ia32_pmuludq256((i32)x, (i32)y);
  if constexpr (N == 4) return (u64)__builtin_ia32_pmuludq128((i32)x, (i32)y);
#endif
  return ((u64)x & 0xffffffffu) * ((u64)y & 0xffffffffu);
}

template <int N>
struct vector_multiply {
  using U = typename raw_types<N>::u32;
  template <std::uint32_t Factor>
  AMP_INLINE static wide_product<U> by(const U& x) {
    using u64 = typename raw_types<N>::u64;
    const U factor = U{} + Factor;
    const u64 even = multiply_even<N>(x, factor);
    const u64 odd = multiply_even<N>((U)((u64)x >> 32), factor);
    return {(U)((even >> 32) | (odd & 0xffffffff00000000u)), (U)((even & 0xffffffffu) | (odd << 32))};
  }
};

/// A uniform word in all lanes.
template <class V>
AMP_INLINE word_of<V> uniform_word(std::uint32_t x) {
  return bits_of(V(__builtin_bit_cast(float, x)));
}
}  // namespace detail
}  // namespace amp::simd

namespace amp {
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "amp: lanes 2k and 2k+1 are read as the halves of 64 bits");
template <>
struct wide_multiply<simd::detail::raw_types<4>::u32> : simd::detail::vector_multiply<4> {};
template <>
struct wide_multiply<simd::detail::raw_types<8>::u32> : simd::detail::vector_multiply<8> {};
template <>
struct wide_multiply<simd::detail::raw_types<16>::u32> : simd::detail::vector_multiply<16> {};
}  // namespace amp

namespace amp::simd {

/// Elements whose random words are made together.
inline constexpr std::int64_t random_block_size = 64;

/// The words of the elements [64 * block, 64 * block + 64).
template <class V>
AMP_INLINE void random_block(std::uint64_t seed, std::uint64_t stream, std::int64_t block, std::uint32_t* to) {
  using U = word_of<V>;
  constexpr int n = lanes<V>;
  const auto word = [](std::uint64_t x) AMP_LAMBDA { return detail::uniform_word<V>(static_cast<std::uint32_t>(x)); };
  const std::uint64_t counter = static_cast<std::uint64_t>(block) * 16;  // a multiple of 16: lanes never carry
  const U low = word(counter), high = word(counter >> 32), stream0 = word(stream), stream1 = word(stream >> 32);
  const U key0 = word(seed), key1 = word(seed >> 32);
  alignas(64) static constexpr std::uint32_t lane_numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const auto put = [&](std::uint32_t* at, const U& words) AMP_LAMBDA { __builtin_memcpy(at, &words, sizeof words); };
  for (int first = 0; first < 16; first += n) {
    U offset;
    __builtin_memcpy(&offset, lane_numbers + first, sizeof offset);
    const philox_words<U> words = philox4x32<U>({low + offset, high, stream0, stream1}, key0, key1);
    put(to + first, words.a);
    put(to + first + 16, words.b);
    put(to + first + 32, words.c);
    put(to + first + 48, words.d);
  }
}

/// The words of the elements [first, first + n), wherever they start.
template <class V>
AMP_INLINE void random_words(std::uint64_t seed, std::uint64_t stream, std::int64_t first, std::int64_t n,
                             std::uint32_t* to) {
  for (std::int64_t done = 0; done < n;) {
    const std::int64_t at = (first + done) % random_block_size;
    const std::int64_t count = random_block_size - at < n - done ? random_block_size - at : n - done;
    if (count == random_block_size) {
      random_block<V>(seed, stream, (first + done) / random_block_size, to + done);
    } else {
      alignas(64) std::uint32_t block[random_block_size];
      random_block<V>(seed, stream, (first + done) / random_block_size, block);
      __builtin_memcpy(to + done, block + at, static_cast<std::size_t>(count) * sizeof *to);
    }
    done += count;
  }
}

/// The words of the next lanes<V> elements.
template <class V>
AMP_INLINE word_of<V> load_words(const std::uint32_t* p) {
  word_of<V> words;
  __builtin_memcpy(&words, p, sizeof words);
  return words;
}

/// lanes<V> elements rounded stochastically into format T at p.
template <class V, Storage T>
AMP_INLINE void store_stochastic(T* p, const V& x, const word_of<V>& random, full = {}) {
  using traits = half_traits<T>;
  if constexpr (std::is_same_v<V, float>) {
    auto* raw = reinterpret_cast<typename detail::scalar_memory<T>::type*>(p);
    *raw = static_cast<typename traits::storage_type>(traits::encode_stochastic(bits_of(x), random));
  } else {
    using types = detail::memory_types<lanes<V>, sizeof(T)>;
    const word_of<V> wide = traits::encode_stochastic(bits_of(x), random);
    *reinterpret_cast<typename types::memory*>(p) = __builtin_convertvector(wide, typename types::value);
  }
}
template <class V, Storage T>
AMP_INLINE void store_stochastic(T* p, const V& x, const word_of<V>& random, part tail) {
  alignas(64) unsigned char buffer[sizeof(T) * static_cast<unsigned>(lanes<V>)];
  store_stochastic<V>(reinterpret_cast<T*>(buffer), x, random);
  __builtin_memcpy(p, buffer, sizeof(T) * static_cast<unsigned>(tail.count));
}

}  // namespace amp::simd
