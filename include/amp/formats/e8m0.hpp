/// e8m0: a power of two as a scale, 8 exponent bits and nothing else (OCP MX).
#pragma once
#include <amp/core/config.hpp>
#include <amp/formats/bits.hpp>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

namespace amp {

namespace detail {
/// fp32 bits -> e8m0, the magnitude rounded up: a block divided by it never overflows.
template <class U>
AMP_HD AMP_INLINE constexpr U e8m0_round_up(const U& bits) {
  const U m = bits & 0x7fffffffu;
  const U zero = m & 0u;
  const U code = above(m, 0x00400000) ? U((m + 0x7fffffu) >> 23) : zero;
  return above(m, 0x7f800000) ? U(zero + 255u) : above(m, 0x7f000000) ? U(zero + 254u) : code;
}
/// fp32 bits -> e8m0, the magnitude rounded to the nearest power, a value in the middle upwards; infinity becomes NaN.
template <class U>
AMP_HD AMP_INLINE constexpr U e8m0_round_nearest(const U& bits) {
  const U m = bits & 0x7fffffffu;
  const U zero = m & 0u;
  const U code = above(m, 0x00400000) ? U((m + 0x400000u) >> 23) : zero;
  return above(m, 0x7f7fffff) ? U(zero + 255u) : code;
}
template <class U>
AMP_HD AMP_INLINE constexpr U e8m0_decode(const U& code) {
  const U zero = code & 0u;
  const U power = above(code, 0) ? U(code << 23) : U(zero + 0x00400000u);
  return above(code, 254) ? U(zero + 0x7fc00000u) : power;
}
/// Code of the magnitude of a double, rounded up once.
AMP_HD constexpr std::uint32_t e8m0_round_up_double(double value) {
  const auto bits = __builtin_bit_cast(std::uint64_t, value) & 0x7fffffffffffffffu;
  if (bits > 0x7ff0000000000000u) return 255;
  const auto power = static_cast<std::int64_t>((bits + 0xfffffffffffffu) >> 52) - 1023 + 127;
  return power < 0 ? 0u : power > 254 ? 254u : static_cast<std::uint32_t>(power);
}
/// Code of the magnitude of a double, as e8m0_round_nearest.
AMP_HD constexpr std::uint32_t e8m0_round_nearest_double(double value) {
  const auto bits = __builtin_bit_cast(std::uint64_t, value) & 0x7fffffffffffffffu;
  const auto power = static_cast<std::int64_t>((bits + 0x8000000000000u) >> 52) - 1023 + 127;
  const std::uint32_t lowest = bits > 0x3800000000000000u ? 1u : 0u;  // above 2^-127
  return power <= 0 ? lowest : power > 254 ? 255u : static_cast<std::uint32_t>(power);
}
}  // namespace detail

/// 2^(bits - 127): no zero, no sign, 0xff is NaN. Conversion to float is exact; from others it rounds the magnitude up,
/// zero and what is below 2^-127 gives 2^-127, what is above 2^127 (infinity too) gives 2^127.
/// source  OCP Microscaling Formats (MX) specification 1.0
class e8m0 {
 public:
  using storage_type = std::uint8_t;

  e8m0() = default;
  AMP_HD explicit constexpr e8m0(float value) noexcept
      : bits_(static_cast<std::uint8_t>(detail::e8m0_round_up(__builtin_bit_cast(std::uint32_t, value)))) {}
  AMP_HD explicit constexpr e8m0(double value) noexcept
      : bits_(static_cast<std::uint8_t>(detail::e8m0_round_up_double(value))) {}

  /// The nearest power of two instead, infinity and what rounds beyond 2^127 as NaN: the rule of torch's cast.
  [[nodiscard]] AMP_HD static constexpr e8m0 nearest(float value) noexcept {
    return from_bits(static_cast<std::uint8_t>(detail::e8m0_round_nearest(__builtin_bit_cast(std::uint32_t, value))));
  }
  [[nodiscard]] AMP_HD static constexpr e8m0 nearest(double value) noexcept {
    return from_bits(static_cast<std::uint8_t>(detail::e8m0_round_nearest_double(value)));
  }
  [[nodiscard]] AMP_HD static constexpr e8m0 from_bits(std::uint8_t bits) noexcept {
    e8m0 value{};
    value.bits_ = bits;
    return value;
  }
  [[nodiscard]] AMP_HD constexpr std::uint8_t bits() const noexcept { return bits_; }

  AMP_HD constexpr operator float() const noexcept {  // NOLINT(google-explicit-constructor): exact
    return __builtin_bit_cast(float, detail::e8m0_decode(std::uint32_t{bits_}));
  }
  /// 1 / value; of 2^127 it is 2^-127, of NaN NaN. 2^-127 has no reciprocal here: 2^127 is.
  [[nodiscard]] AMP_HD constexpr e8m0 reciprocal() const noexcept {
    return from_bits(bits_ == 255 ? bits_ : static_cast<std::uint8_t>(254 - bits_));
  }

  AMP_HD friend constexpr bool operator==(e8m0 a, e8m0 b) noexcept { return a.bits_ == b.bits_ && a.bits_ != 255; }
  AMP_HD friend constexpr std::partial_ordering operator<=>(e8m0 a, e8m0 b) noexcept { return float(a) <=> float(b); }

 private:
  std::uint8_t bits_;
};
static_assert(sizeof(e8m0) == 1 && alignof(e8m0) == 1 && std::is_trivially_copyable_v<e8m0> &&
              std::is_standard_layout_v<e8m0>);

}  // namespace amp

template <>
class std::numeric_limits<amp::e8m0> {
 public:
  static constexpr bool is_specialized = true, is_signed = false, is_integer = false, is_exact = false;
  static constexpr bool has_infinity = false, has_quiet_NaN = true, has_signaling_NaN = false;
  static constexpr bool is_iec559 = false, is_bounded = true, is_modulo = false, traps = false, tinyness_before = false;
  static constexpr std::float_denorm_style has_denorm = std::denorm_absent;
  static constexpr bool has_denorm_loss = false;
  static constexpr std::float_round_style round_style = std::round_toward_infinity;
  static constexpr int radix = 2, digits = 1, digits10 = 0, max_digits10 = 2;
  static constexpr int min_exponent = -126, min_exponent10 = -38, max_exponent = 128, max_exponent10 = 38;
  static constexpr amp::e8m0 min() noexcept { return amp::e8m0::from_bits(0); }
  static constexpr amp::e8m0 lowest() noexcept { return min(); }
  static constexpr amp::e8m0 max() noexcept { return amp::e8m0::from_bits(254); }
  static constexpr amp::e8m0 epsilon() noexcept { return amp::e8m0::from_bits(127); }
  static constexpr amp::e8m0 round_error() noexcept { return amp::e8m0::from_bits(127); }
  static constexpr amp::e8m0 infinity() noexcept { return min(); }  ///< has none
  static constexpr amp::e8m0 quiet_NaN() noexcept { return amp::e8m0::from_bits(255); }
  static constexpr amp::e8m0 signaling_NaN() noexcept { return min(); }  ///< has none
  static constexpr amp::e8m0 denorm_min() noexcept { return min(); }
};
template <>
struct std::hash<amp::e8m0> {
  std::size_t operator()(amp::e8m0 value) const noexcept { return value.bits() * std::size_t{0x9e3779b9u}; }
};
