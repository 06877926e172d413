/// One rounding from numbers wider than fp32: doubles and integers, one at a time.
#pragma once
#include <amp/core/config.hpp>
#include <amp/formats/layout.hpp>
#include <concepts>
#include <cstdint>

namespace amp::detail {

/// How `kept` units and `rest` / 2^shift of one (0 < shift < 64) become a whole number of units.
struct round_down {
  AMP_HD constexpr std::uint64_t operator()(std::uint64_t kept, std::uint64_t, int) const { return kept; }
};
struct round_nearest_even {
  AMP_HD constexpr std::uint64_t operator()(std::uint64_t kept, std::uint64_t rest, int shift) const {
    const std::uint64_t tie = std::uint64_t{1} << (shift - 1);
    return kept + (rest > tie || (rest == tie && (kept & 1u) != 0) ? 1u : 0u);
  }
};
struct round_stochastic {
  std::uint32_t random;
  AMP_HD constexpr std::uint64_t operator()(std::uint64_t kept, std::uint64_t rest, int shift) const {
    const std::uint64_t fraction = shift > 31 ? rest >> (shift - 31) : rest << (31 - shift);
    return kept + ((fraction + (random >> 1)) >> 31);
  }
};

/// Place of the highest bit that is set; 0 for none. (std::countl_zero is no device function.)
AMP_HD constexpr int highest_bit(std::uint64_t x) {
  int place = 0;
  for (int step = 32; step > 0; step /= 2) {
    if ((x >> step) == 0) continue;
    x >>= step;
    place += step;
  }
  return place;
}

/// Rounds (-1)^negative * significand * 2^exponent once.
template <class L, bool Saturate = false, class Rule = round_nearest_even>
AMP_HD constexpr std::uint32_t round_exact(bool negative, std::uint64_t significand, int exponent, Rule rule = {}) {
  if constexpr (std::same_as<Rule, round_stochastic>) {  // no neighbour above the largest number
    const std::uint32_t below = round_exact<L, true>(negative, significand, exponent, round_down{});
    if ((below & L::magnitude_mask) == L::max_code) return round_exact<L, Saturate>(negative, significand, exponent);
  }
  std::uint32_t sign = negative ? L::sign_bit : 0u;
  std::uint32_t code = 0;
  if (significand != 0) {
    const int top = highest_bit(significand) + exponent;  // value in [2^top, 2^(top+1))
    const bool subnormal = top < 1 - L::bias;
    const int ulp = (subnormal ? 1 - L::bias : top) - L::mantissa_bits;  // exponent of the result's last place
    const int shift = ulp - exponent;
    std::uint64_t kept = 0;
    if (shift <= 0) {
      kept = significand << -shift;
    } else if (shift < 64) {
      kept = rule(significand >> shift, significand & ((std::uint64_t{1} << shift) - 1u), shift);
    } else if (shift < 96) {  // less than one unit: the leading bits are enough, an odd last one stands for the others
      const std::uint64_t lost = significand & ((std::uint64_t{1} << (shift - 63)) - 1u);
      kept = rule(0, (significand >> (shift - 63)) | (lost != 0 ? 1u : 0u), 63);
    }
    // A carry out of the mantissa runs into the exponent, as it shall.
    const int field = subnormal ? 0 : top + L::bias - 1;
    const bool representable = top <= 128;  // the code of a larger one would not fit the word
    code = representable ? (static_cast<std::uint32_t>(field) << L::mantissa_bits) + static_cast<std::uint32_t>(kept)
                         : L::max_code + 1u;
    if (code > L::max_code) {
      constexpr bool keeps_sign = Saturate || L::kind != specials::unsigned_zero;
      if (!keeps_sign) sign = 0;
      code = Saturate || L::kind == specials::none ? L::max_code : L::overflow_code;
    }
  }
  return code == 0 && L::kind == specials::unsigned_zero ? 0u : sign | code;
}

template <class L, bool Saturate = false, class Rule = round_nearest_even>
AMP_HD constexpr std::uint32_t round_from_double(double value, Rule rule = {}) {
  const auto bits = __builtin_bit_cast(std::uint64_t, value);
  const bool negative = (bits >> 63) != 0;
  const int field = static_cast<int>((bits >> 52) & 0x7ffu);
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52) - 1u);
  if (field == 0x7ff) {  // fp32 has the same infinities, and a NaN with the upper payload
    const std::uint32_t payload = fraction == 0 ? 0u : 0x400000u | static_cast<std::uint32_t>(fraction >> 29);
    return encode<L, Saturate>((negative ? 0x80000000u : 0u) | 0x7f800000u | payload);
  }
  const std::uint64_t hidden = field == 0 ? 0 : std::uint64_t{1} << 52;
  return round_exact<L, Saturate>(negative, fraction | hidden, (field == 0 ? 1 : field) - 1075, rule);
}

template <class L, bool Saturate = false, std::integral I, class Rule = round_nearest_even>
AMP_HD constexpr std::uint32_t round_from_integer(I value, Rule rule = {}) {
  if constexpr (std::signed_integral<I>) {
    const auto wide = static_cast<std::int64_t>(value);
    const auto magnitude = wide < 0 ? 0 - static_cast<std::uint64_t>(wide) : static_cast<std::uint64_t>(wide);
    return round_exact<L, Saturate>(wide < 0, magnitude, 0, rule);
  } else {
    return round_exact<L, Saturate>(false, static_cast<std::uint64_t>(value), 0, rule);
  }
}

}  // namespace amp::detail
