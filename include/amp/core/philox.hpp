/// Counter-based random words: the same for an element whatever thread, chunk, vector width or device asks for them.
/// source  Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3" (Philox4x32-10)
#pragma once
#include <amp/core/config.hpp>
#include <cstdint>

namespace amp {

/// Both halves of 32x32-bit products.
template <class U>
struct wide_product {
  U high, low;
};
/// factor * x for one word; simd/random.hpp adds the vectors.
template <class U>
struct wide_multiply;
template <>
struct wide_multiply<std::uint32_t> {
  template <std::uint32_t Factor>
  AMP_HD AMP_INLINE static constexpr wide_product<std::uint32_t> by(std::uint32_t x) {
    const std::uint64_t product = std::uint64_t{Factor} * x;
    return {static_cast<std::uint32_t>(product >> 32), static_cast<std::uint32_t>(product)};
  }
};

/// Four words: a counter, or what Philox makes of it. `U` is std::uint32_t or a vector of it.
template <class U>
struct philox_words {
  U a, b, c, d;
};

namespace detail {
template <class U>
AMP_HD AMP_INLINE constexpr philox_words<U> philox_round(const philox_words<U>& x, const U& key0, const U& key1) {
  const wide_product<U> first = wide_multiply<U>::template by<0xd2511f53u>(x.a);
  const wide_product<U> second = wide_multiply<U>::template by<0xcd9e8d57u>(x.c);
  return {second.high ^ x.b ^ key0, second.low, first.high ^ x.d ^ key1, first.low};
}
}  // namespace detail

/// Philox4x32-10: four random words for a counter and a key.
template <class U>
[[nodiscard]] AMP_HD AMP_INLINE constexpr philox_words<U> philox4x32(philox_words<U> counter, U key0, U key1) {
  for (int round = 0; round < 10; ++round) {
    counter = detail::philox_round(counter, key0, key1);
    key0 = key0 + 0x9e3779b9u;
    key1 = key1 + 0xbb67ae85u;
  }
  return counter;
}

/// The random word of an element, part of the definition of stochastic rounding: of 64 consecutive elements, the ones
/// 16 apart share a counter. `stream` keeps tensors and steps apart.
[[nodiscard]] AMP_HD constexpr std::uint32_t random_word(std::uint64_t seed, std::uint64_t stream,
                                                         std::uint64_t element) {
  const std::uint64_t counter = element / 64 * 16 + element % 16;
  const philox_words<std::uint32_t> words =
      philox4x32<std::uint32_t>({static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32),
                                 static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)},
                                static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
  switch (element / 16 % 4) {
    case 0:
      return words.a;
    case 1:
      return words.b;
    case 2:
      return words.c;
    default:
      return words.d;
  }
}

}  // namespace amp
