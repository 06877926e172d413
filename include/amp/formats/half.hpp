/// fp16: 1 sign, 5 exponent and 10 mantissa bits (IEEE 754 binary16).
#pragma once
#include <amp/core/config.hpp>
#include <amp/formats/bits.hpp>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <type_traits>

namespace amp {

/// A 16-bit float that holds its bits.
/// Conversion to float is exact and implicit, conversion from any other type is explicit and rounds once, nearest-even.
/// Arithmetic computes in fp32 and rounds once per operation.
class half {
 public:
  half() = default;
  AMP_HD explicit constexpr half(float value) noexcept
      : bits_(static_cast<std::uint16_t>(detail::half_from_float_bits(__builtin_bit_cast(std::uint32_t, value)))) {}
  AMP_HD explicit constexpr half(double value) noexcept
      : bits_(static_cast<std::uint16_t>(detail::round_from_double<5, 10>(value))) {}
  template <std::integral I>
  AMP_HD explicit constexpr half(I value) noexcept
      : bits_(static_cast<std::uint16_t>(detail::round_from_integer<5, 10>(value))) {}
  explicit half(long double) = delete;  // would need a rounding of its own; go through double

  [[nodiscard]] AMP_HD static constexpr half from_bits(std::uint16_t bits) noexcept {
    half value{};
    value.bits_ = bits;
    return value;
  }
  [[nodiscard]] AMP_HD constexpr std::uint16_t bits() const noexcept { return bits_; }

  AMP_HD constexpr operator float() const noexcept {  // NOLINT(google-explicit-constructor): exact
    return __builtin_bit_cast(float, detail::half_to_float_bits(std::uint32_t{bits_}));
  }

  AMP_HD friend constexpr half operator+(half a) noexcept { return a; }
  AMP_HD friend constexpr half operator-(half a) noexcept {
    return from_bits(static_cast<std::uint16_t>(a.bits_ ^ 0x8000u));
  }
  AMP_HD friend constexpr half operator+(half a, half b) noexcept { return half(float(a) + float(b)); }
  AMP_HD friend constexpr half operator-(half a, half b) noexcept { return half(float(a) - float(b)); }
  AMP_HD friend constexpr half operator*(half a, half b) noexcept { return half(float(a) * float(b)); }
  AMP_HD friend constexpr half operator/(half a, half b) noexcept { return half(float(a) / float(b)); }
  AMP_HD constexpr half& operator+=(half b) noexcept { return *this = *this + b; }
  AMP_HD constexpr half& operator-=(half b) noexcept { return *this = *this - b; }
  AMP_HD constexpr half& operator*=(half b) noexcept { return *this = *this * b; }
  AMP_HD constexpr half& operator/=(half b) noexcept { return *this = *this / b; }
  AMP_HD constexpr half& operator++() noexcept { return *this += half(1.f); }
  AMP_HD constexpr half& operator--() noexcept { return *this -= half(1.f); }

  AMP_HD friend constexpr bool operator==(half a, half b) noexcept { return float(a) == float(b); }
  AMP_HD friend constexpr auto operator<=>(half a, half b) noexcept { return float(a) <=> float(b); }

 private:
  std::uint16_t bits_;
};
static_assert(sizeof(half) == 2 && alignof(half) == 2 && std::is_trivially_copyable_v<half> &&
              std::is_standard_layout_v<half>);

}  // namespace amp

template <>
class std::numeric_limits<amp::half> {
 public:
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false, is_exact = false;
  static constexpr bool has_infinity = true, has_quiet_NaN = true, has_signaling_NaN = true;
  static constexpr bool is_iec559 = true, is_bounded = true, is_modulo = false, traps = false, tinyness_before = false;
  static constexpr std::float_denorm_style has_denorm = std::denorm_present;
  static constexpr bool has_denorm_loss = false;
  static constexpr std::float_round_style round_style = std::round_to_nearest;
  static constexpr int radix = 2, digits = 11, digits10 = 3, max_digits10 = 5;
  static constexpr int min_exponent = -13, min_exponent10 = -4, max_exponent = 16, max_exponent10 = 4;
  static constexpr amp::half min() noexcept { return amp::half::from_bits(0x0400); }
  static constexpr amp::half lowest() noexcept { return amp::half::from_bits(0xfbff); }
  static constexpr amp::half max() noexcept { return amp::half::from_bits(0x7bff); }
  static constexpr amp::half epsilon() noexcept { return amp::half(0x1p-10f); }
  static constexpr amp::half round_error() noexcept { return amp::half(0.5f); }
  static constexpr amp::half infinity() noexcept { return amp::half::from_bits(0x7c00); }
  static constexpr amp::half quiet_NaN() noexcept { return amp::half::from_bits(0x7e00); }
  static constexpr amp::half signaling_NaN() noexcept { return amp::half::from_bits(0x7d00); }
  static constexpr amp::half denorm_min() noexcept { return amp::half::from_bits(1); }
};

template <>
struct std::hash<amp::half> {
  std::size_t operator()(amp::half value) const noexcept {
    const unsigned bits = value.bits() == 0x8000u ? 0u : value.bits();  // -0 equals 0
    return std::hash<unsigned>{}(bits);
  }
};
