/// bf16: the upper half of an fp32: 1 sign, 8 exponent and 7 mantissa bits.
#pragma once
#include <amp/core/config.hpp>
#include <amp/formats/bits.hpp>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <type_traits>

namespace amp {

/// A 16-bit float with fp32's exponent range.
/// Conversion to float is exact and implicit, conversion from any other type is explicit and rounds once, nearest-even.
/// Arithmetic computes in fp32 and rounds once per operation.
class bfloat16 {
 public:
  bfloat16() = default;
  AMP_HD explicit constexpr bfloat16(float value) noexcept
      : bits_(static_cast<std::uint16_t>(detail::bf16_from_float_bits(__builtin_bit_cast(std::uint32_t, value)))) {}
  AMP_HD explicit constexpr bfloat16(double value) noexcept
      : bits_(static_cast<std::uint16_t>(detail::round_from_double<8, 7>(value))) {}
  template <std::integral I>
  AMP_HD explicit constexpr bfloat16(I value) noexcept
      : bits_(static_cast<std::uint16_t>(detail::round_from_integer<8, 7>(value))) {}
  explicit bfloat16(long double) = delete;  // would need a rounding of its own; go through double

  [[nodiscard]] AMP_HD static constexpr bfloat16 from_bits(std::uint16_t bits) noexcept {
    bfloat16 value{};
    value.bits_ = bits;
    return value;
  }
  [[nodiscard]] AMP_HD constexpr std::uint16_t bits() const noexcept { return bits_; }

  AMP_HD constexpr operator float() const noexcept {  // NOLINT(google-explicit-constructor): exact
    return __builtin_bit_cast(float, detail::bf16_to_float_bits(std::uint32_t{bits_}));
  }

  AMP_HD friend constexpr bfloat16 operator+(bfloat16 a) noexcept { return a; }
  AMP_HD friend constexpr bfloat16 operator-(bfloat16 a) noexcept {
    return from_bits(static_cast<std::uint16_t>(a.bits_ ^ 0x8000u));
  }
  AMP_HD friend constexpr bfloat16 operator+(bfloat16 a, bfloat16 b) noexcept { return bfloat16(float(a) + float(b)); }
  AMP_HD friend constexpr bfloat16 operator-(bfloat16 a, bfloat16 b) noexcept { return bfloat16(float(a) - float(b)); }
  AMP_HD friend constexpr bfloat16 operator*(bfloat16 a, bfloat16 b) noexcept { return bfloat16(float(a) * float(b)); }
  AMP_HD friend constexpr bfloat16 operator/(bfloat16 a, bfloat16 b) noexcept { return bfloat16(float(a) / float(b)); }
  AMP_HD constexpr bfloat16& operator+=(bfloat16 b) noexcept { return *this = *this + b; }
  AMP_HD constexpr bfloat16& operator-=(bfloat16 b) noexcept { return *this = *this - b; }
  AMP_HD constexpr bfloat16& operator*=(bfloat16 b) noexcept { return *this = *this * b; }
  AMP_HD constexpr bfloat16& operator/=(bfloat16 b) noexcept { return *this = *this / b; }
  AMP_HD constexpr bfloat16& operator++() noexcept { return *this += bfloat16(1.f); }
  AMP_HD constexpr bfloat16& operator--() noexcept { return *this -= bfloat16(1.f); }

  AMP_HD friend constexpr bool operator==(bfloat16 a, bfloat16 b) noexcept { return float(a) == float(b); }
  AMP_HD friend constexpr auto operator<=>(bfloat16 a, bfloat16 b) noexcept { return float(a) <=> float(b); }

 private:
  std::uint16_t bits_;
};
static_assert(sizeof(bfloat16) == 2 && alignof(bfloat16) == 2 && std::is_trivially_copyable_v<bfloat16> &&
              std::is_standard_layout_v<bfloat16>);

}  // namespace amp

template <>
class std::numeric_limits<amp::bfloat16> {
 public:
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false, is_exact = false;
  static constexpr bool has_infinity = true, has_quiet_NaN = true, has_signaling_NaN = true;
  static constexpr bool is_iec559 = false, is_bounded = true, is_modulo = false, traps = false, tinyness_before = false;
  static constexpr std::float_denorm_style has_denorm = std::denorm_present;
  static constexpr bool has_denorm_loss = false;
  static constexpr std::float_round_style round_style = std::round_to_nearest;
  static constexpr int radix = 2, digits = 8, digits10 = 2, max_digits10 = 4;
  static constexpr int min_exponent = -125, min_exponent10 = -37, max_exponent = 128, max_exponent10 = 38;
  static constexpr amp::bfloat16 min() noexcept { return amp::bfloat16::from_bits(0x0080); }
  static constexpr amp::bfloat16 lowest() noexcept { return amp::bfloat16::from_bits(0xff7f); }
  static constexpr amp::bfloat16 max() noexcept { return amp::bfloat16::from_bits(0x7f7f); }
  static constexpr amp::bfloat16 epsilon() noexcept { return amp::bfloat16(0x1p-7f); }
  static constexpr amp::bfloat16 round_error() noexcept { return amp::bfloat16(0.5f); }
  static constexpr amp::bfloat16 infinity() noexcept { return amp::bfloat16::from_bits(0x7f80); }
  static constexpr amp::bfloat16 quiet_NaN() noexcept { return amp::bfloat16::from_bits(0x7fc0); }
  static constexpr amp::bfloat16 signaling_NaN() noexcept { return amp::bfloat16::from_bits(0x7fa0); }
  static constexpr amp::bfloat16 denorm_min() noexcept { return amp::bfloat16::from_bits(1); }
};

template <>
struct std::hash<amp::bfloat16> {
  std::size_t operator()(amp::bfloat16 value) const noexcept {
    const unsigned bits = value.bits() == 0x8000u ? 0u : value.bits();  // -0 equals 0
    return std::hash<unsigned>{}(bits);
  }
};
