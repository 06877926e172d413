/// Whole arrays of any 8-bit format to and from fp32 by one kernel per target: a format is a handful of numbers here,
/// so that another one costs no code. Bits as by half_traits.
#pragma once
#include <amp/core/config.hpp>
#include <amp/formats/bits.hpp>
#include <amp/formats/layout.hpp>
#include <amp/half_traits.hpp>
#include <amp/simd/load.hpp>
#include <amp/simd/vec.hpp>
#include <array>
#include <cstdint>

namespace amp::simd {

/// An 8-bit format at run time, for encode_bytes.
struct byte_format {
  int cut;
  std::uint32_t rebias, overflow, nan, payload;
  std::int32_t last_subnormal, last_in_range;  ///< fp32 magnitudes
  std::int32_t last_unsigned;                  ///< codes up to this one have no sign: 0, or -1 for none
  float magic;                                 ///< its ulp is the spacing of subnormals
};
template <class T>
requires(sizeof(T) == 1) inline constexpr byte_format byte_format_of = [] {
  using L = typename half_traits<T>::layout;
  constexpr bool fnuz = L::kind == amp::detail::specials::unsigned_zero;
  return byte_format{L::cut,
                     static_cast<std::uint32_t>(127 - L::bias) << 23,
                     L::overflow_code,
                     L::nan_code,
                     L::kind == amp::detail::specials::ieee ? (1u << L::mantissa_bits) - 1u : 0u,
                     static_cast<std::int32_t>(L::min_normal_bits) - 1,
                     static_cast<std::int32_t>(L::overflow_bits) - 1,
                     fnuz ? 0 : -1,
                     L::denorm_min * 0x1p23f};
}();

/// fp32 to an 8-bit format, nearest-even, not saturating. Body of a kernel.
struct encode_bytes {
  template <class V>
  AMP_INLINE static void run(const float* from, std::int64_t n, std::uint8_t* to, const byte_format& given) {
    const byte_format format = given;
    std::int64_t i = 0;
    for (; i + lanes<V> <= n; i += lanes<V>) put<V>(code(bits_of(load<V>(from + i)), format), to + i, full{});
    if constexpr (lanes < V >> 1) {
      const part tail{static_cast<int>(n - i)};
      if (i < n) put<V>(code(bits_of(load<V>(from + i, tail)), format), to + i, tail);
    }
  }

 private:
  template <class U>
  AMP_INLINE static U code(const U& bits, const byte_format& f) {
    using amp::detail::above;
    const U zero = bits & 0u;
    const U m = bits & 0x7fffffffu;
    const U one = zero + 1u;
    const U normal = (m + ((one << (f.cut - 1)) - 1u) + ((m >> f.cut) & 1u) - (zero + f.rebias)) >> f.cut;
    const U magic = zero + __builtin_bit_cast(std::uint32_t, f.magic);
    const U subnormal = amp::detail::as_word<U>(amp::detail::as_float(m) + amp::detail::as_float(magic)) - magic;
    const U number = above(m, f.last_subnormal) ? normal : subnormal;
    const U nan = ((m >> f.cut) & (zero + f.payload)) | (zero + f.nan);
    const U special = above(m, 0x7f800000) ? nan : U(zero + f.overflow);
    const U magnitude = above(m, f.last_in_range) ? special : number;
    const U sign = (bits >> 24) & 0x80u;
    return magnitude | (above(U(magnitude & 0x7fu), f.last_unsigned) ? sign : zero);
  }
  template <class V, class Part>
  AMP_INLINE static void put(const word_of<V>& codes, std::uint8_t* to, Part part) {
    if constexpr (std::is_same_v<V, float>) {
      *to = static_cast<std::uint8_t>(codes);
    } else {
      using types = detail::memory_types<lanes<V>, 1>;
      const auto bytes = __builtin_convertvector(codes, typename types::value);
      if constexpr (std::is_same_v<Part, full>) {
        *reinterpret_cast<typename types::memory*>(to) = bytes;
      } else {
        __builtin_memcpy(to, &bytes, static_cast<unsigned>(part.count));
      }
    }
  }
};

/// The values of all patterns of an 8-bit format.
template <class T>
requires(sizeof(T) == 1) inline constexpr std::array<float, 256> byte_values = [] {
  std::array<float, 256> all{};
  for (unsigned pattern = 0; pattern < 256; ++pattern) all[pattern] = T::from_bits(static_cast<std::uint8_t>(pattern));
  return all;
}();

/// An 8-bit format to fp32 by its table.
inline void decode_bytes(const std::uint8_t* from, std::int64_t n, float* to, const std::array<float, 256>& values) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = values[from[i]];
}

}  // namespace amp::simd
