/// Bit layouts of the narrow float formats, and integer code between them and fp32 for one value and for vectors.
/// Nothing here depends on the thread's FTZ/DAZ state: subnormals of a narrow format are never floats that the
/// processor could flush.
#pragma once
#include <amp/core/config.hpp>
#include <amp/formats/bits.hpp>
#include <cstdint>

namespace amp::detail {

/// Which patterns are no finite numbers.
enum class specials : std::uint8_t {
  ieee,           ///< the highest exponent holds infinity and NaNs
  one_nan,        ///< no infinity, NaN is all ones ("fn")
  unsigned_zero,  ///< no infinity, NaN stands where -0 would ("fnuz")
  none,           ///< all patterns are finite
};

/// 2^n as a float, subnormals included. (Not by a bit cast: nvcc 13 fails at those of constants in templates.)
AMP_HD constexpr float power_of_two(int n) {
  float power = 1.f;
  for (; n > 0; --n) power *= 2.f;
  for (; n < 0; ++n) power *= 0.5f;
  return power;
}

/// A sign, `E` exponent bits and `M` mantissa bits.
template <int E, int M, int Bias, specials Kind>
struct layout {
  static constexpr int exponent_bits = E, mantissa_bits = M, bias = Bias;
  static constexpr specials kind = Kind;
  static constexpr int cut = 23 - M;  ///< bits of an fp32 mantissa that do not fit
  static constexpr std::uint32_t sign_bit = 1u << (E + M), magnitude_mask = sign_bit - 1u;
  static constexpr std::uint32_t infinity = ((1u << E) - 1u) << M;  ///< of the ieee kind
  /// Magnitude of the largest finite number.
  static constexpr std::uint32_t max_code = Kind == specials::ieee      ? infinity - 1u
                                            : Kind == specials::one_nan ? magnitude_mask - 1u
                                                                        : magnitude_mask;
  /// A quiet NaN without payload (none: what a NaN becomes).
  static constexpr std::uint32_t nan_code = Kind == specials::ieee            ? infinity | (1u << (M - 1))
                                            : Kind == specials::unsigned_zero ? sign_bit
                                                                              : magnitude_mask;
  /// What a number beyond the range becomes, when it does not saturate.
  static constexpr std::uint32_t overflow_code = Kind == specials::ieee ? infinity : nan_code;
  /// Subnormals are those of fp32 with fewer bits.
  static constexpr bool fp32_range = E == 8 && Bias == 127;
  static constexpr float denorm_min = power_of_two(1 - Bias - M);
  static constexpr std::uint32_t min_normal_bits = static_cast<std::uint32_t>(128 - Bias) << 23;
  static constexpr std::uint32_t max_bits = (max_code << cut) + (static_cast<std::uint32_t>(127 - Bias) << 23);
  /// The smallest fp32 magnitude that rounds beyond the range: half a unit above the largest number, and one more where
  /// that tie is even.
  static constexpr std::uint32_t overflow_bits = max_bits + (1u << (cut - 1)) + (1u - (max_code & 1u));
};
using half_layout = layout<5, 10, 15, specials::ieee>;
using bfloat16_layout = layout<8, 7, 127, specials::ieee>;
using e4m3_layout = layout<4, 3, 7, specials::one_nan>;
using e5m2_layout = layout<5, 2, 15, specials::ieee>;
using e4m3fnuz_layout = layout<4, 3, 8, specials::unsigned_zero>;
using e5m2fnuz_layout = layout<5, 2, 16, specials::unsigned_zero>;
using e2m1_layout = layout<2, 1, 1, specials::none>;

/// Magnitude of fp32 bits -> magnitude code, nearest-even; beyond the range it is only larger than max_code.
template <class L, class U>
AMP_HD AMP_INLINE constexpr U nearest_code(const U& m) {
  constexpr std::uint32_t rebias = static_cast<std::uint32_t>(127 - L::bias) << 23;
  const U normal = (m + ((1u << (L::cut - 1)) - 1u) + ((m >> L::cut) & 1u) - rebias) >> L::cut;
  if constexpr (L::fp32_range) {
    return normal;
  } else {
    // A float whose ulp is the spacing of the format's subnormals: the addition rounds, the difference is the code.
    constexpr float magic = L::denorm_min * 0x1p23f;
    constexpr std::uint32_t magic_bits = static_cast<std::uint32_t>(151 - L::bias - L::mantissa_bits) << 23;
    const U subnormal = as_word<U>(as_float(m) + magic) - magic_bits;
    return above(m, static_cast<std::int32_t>(L::min_normal_bits - 1u)) ? normal : subnormal;
  }
}

/// The same with stochastic rounding: up if the fraction between the neighbours (cut to 31 bits) plus random / 2^32
/// reaches 1. Between the largest number and the range's end there is no neighbour above, so the number stays.
template <class L, class U>
AMP_HD AMP_INLINE constexpr U stochastic_code(const U& m, const U& random) {
  constexpr std::uint32_t rebias = static_cast<std::uint32_t>(127 - L::bias) << 23;
  const U zero = m & 0u;
  const U normal = (m + (random >> (32 - L::cut)) - rebias) >> L::cut;
  U code = normal;
  if constexpr (!L::fp32_range) {
    constexpr float per_unit = 1.f / L::denorm_min;
    const auto is_normal = above(m, static_cast<std::int32_t>(L::min_normal_bits - 1u));
    const float_of<U> scaled = as_float(is_normal ? zero : m) * per_unit;
    const U whole = whole_part<U>(scaled);
    const U fraction = whole_part<U>((scaled - small_int_times(whole, 1.f)) * 0x1p31f);
    code = is_normal ? normal : U(whole + ((fraction + (random >> 1)) >> 31));
  }
  return above(code, static_cast<std::int32_t>(L::max_code)) ? U(zero + L::max_code) : code;
}

/// Puts sign, infinities and NaNs on the code of a magnitude.
template <class L, bool Saturate, class U>
AMP_HD AMP_INLINE constexpr U finished(const U& bits, const U& m, const U& code) {
  const U zero = m & 0u;
  const U sign = (bits >> (31 - L::exponent_bits - L::mantissa_bits)) & L::sign_bit;
  const auto is_nan = above(m, 0x7f800000);
  const auto is_beyond = above(m, static_cast<std::int32_t>(L::overflow_bits - 1u));
  if constexpr (L::kind == specials::none) {  // no infinity, no NaN: always saturates
    return is_nan ? U(zero + L::max_code) : U((is_beyond ? U(zero + L::max_code) : code) | sign);
  } else if constexpr (L::kind == specials::unsigned_zero) {
    const U number = above(code, 0) ? U(code | sign) : zero;
    if constexpr (Saturate) return is_nan ? U(zero + L::nan_code) : is_beyond ? U(sign | L::max_code) : number;
    return is_beyond ? U(zero + L::nan_code) : number;
  } else {
    constexpr std::uint32_t payload = L::kind == specials::ieee ? (1u << L::mantissa_bits) - 1u : 0u;
    const U nan = ((m >> L::cut) & payload) | L::nan_code;
    const U beyond = zero + (Saturate ? L::max_code : L::overflow_code);
    return (is_beyond ? (is_nan ? nan : beyond) : code) | sign;
  }
}

/// fp32 bits -> bits of the format, nearest-even into the subnormals; a NaN stays one where the format has any.
template <class L, bool Saturate = false, class U>
AMP_HD AMP_INLINE constexpr U encode(const U& bits) {
  if constexpr (L::fp32_range && !Saturate) {  // the sign and infinity round along
    const U rounded = (bits + ((1u << (L::cut - 1)) - 1u) + ((bits >> L::cut) & 1u)) >> L::cut;
    const U quiet = (bits >> L::cut) | (1u << (L::mantissa_bits - 1));
    return above(U(bits & 0x7fffffffu), 0x7f800000) ? quiet : rounded;
  } else {
    const U m = bits & 0x7fffffffu;
    return finished<L, Saturate>(bits, m, nearest_code<L>(m));
  }
}
/// The same with 32 random bits per value; exact values never move.
template <class L, bool Saturate = false, class U>
AMP_HD AMP_INLINE constexpr U encode_stochastic(const U& bits, const U& random) {
  const U m = bits & 0x7fffffffu;
  return finished<L, Saturate>(bits, m, stochastic_code<L>(m, random));
}

/// Bits of the format -> fp32 bits, exact. Signalling NaNs of narrow exponents are quieted, as F16C does.
template <class L, class U>
AMP_HD AMP_INLINE constexpr U decode(const U& code) {
  if constexpr (L::fp32_range) {
    return code << L::cut;
  } else {
    const U zero = code & 0u;
    const U sign = (code & L::sign_bit) << (31 - L::exponent_bits - L::mantissa_bits);
    const U m = code & L::magnitude_mask;
    const U normal = (m << L::cut) + (static_cast<std::uint32_t>(127 - L::bias) << 23);
    const U subnormal = as_word<U>(small_int_times(m, L::denorm_min));
    const U finite = above(m, (1 << L::mantissa_bits) - 1) ? normal : subnormal;
    if constexpr (L::kind == specials::none) {
      return finite | sign;
    } else if constexpr (L::kind == specials::unsigned_zero) {
      return above(U(code ^ L::nan_code), 0) ? U(finite | sign) : U(zero + 0x7fc00000u);
    } else if constexpr (L::kind == specials::one_nan) {
      return (above(m, static_cast<std::int32_t>(L::max_code)) ? U(zero + 0x7fc00000u) : finite) | sign;
    } else {
      const U quiet = above(m, static_cast<std::int32_t>(L::infinity)) ? U(zero + 0x400000u) : zero;
      const U special = (m << L::cut) | quiet | 0x7f800000u;
      return (above(m, static_cast<std::int32_t>(L::max_code)) ? special : finite) | sign;
    }
  }
}

}  // namespace amp::detail
