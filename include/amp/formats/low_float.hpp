/// What all narrow float types share: bits, conversions, operators, limits and hash, said once.
#pragma once
#include <amp/core/config.hpp>
#include <amp/formats/layout.hpp>
#include <amp/formats/round.hpp>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace amp::detail {

/// A value that holds the bits of layout `L`; `Self` derives from it and adds its name.
/// Conversion to float is exact and implicit, conversion from any other type is explicit and rounds once, nearest-even.
/// Arithmetic computes in fp32 and rounds once per operation.
template <class Self, class L>
class low_float {
 public:
  using layout = L;
  using storage_type = std::conditional_t<(L::exponent_bits + L::mantissa_bits > 7), std::uint16_t, std::uint8_t>;

  low_float() = default;
  AMP_HD explicit constexpr low_float(float value) noexcept
      : bits_(static_cast<storage_type>(encode<L>(__builtin_bit_cast(std::uint32_t, value)))) {}
  AMP_HD explicit constexpr low_float(double value) noexcept
      : bits_(static_cast<storage_type>(round_from_double<L>(value))) {}
  template <std::integral I>
  AMP_HD explicit constexpr low_float(I value) noexcept
      : bits_(static_cast<storage_type>(round_from_integer<L>(value))) {}
  explicit low_float(long double) = delete;  // would need a rounding of its own; go through double

  [[nodiscard]] AMP_HD static constexpr Self from_bits(storage_type bits) noexcept {
    Self value{};
    value.bits_ = bits;
    return value;
  }
  [[nodiscard]] AMP_HD constexpr storage_type bits() const noexcept { return bits_; }

  AMP_HD constexpr operator float() const noexcept {  // NOLINT(google-explicit-constructor): exact
    return __builtin_bit_cast(float, decode<L>(std::uint32_t{bits_}));
  }

  AMP_HD friend constexpr Self operator+(Self a) noexcept { return a; }
  AMP_HD friend constexpr Self operator-(Self a) noexcept {
    if (L::kind == specials::unsigned_zero && (a.bits() & L::magnitude_mask) == 0) return a;  // 0 or NaN
    return from_bits(static_cast<storage_type>(a.bits() ^ L::sign_bit));
  }
  AMP_HD friend constexpr Self operator+(Self a, Self b) noexcept { return Self(float(a) + float(b)); }
  AMP_HD friend constexpr Self operator-(Self a, Self b) noexcept { return Self(float(a) - float(b)); }
  AMP_HD friend constexpr Self operator*(Self a, Self b) noexcept { return Self(float(a) * float(b)); }
  AMP_HD friend constexpr Self operator/(Self a, Self b) noexcept { return Self(float(a) / float(b)); }
  AMP_HD friend constexpr Self& operator+=(Self& a, Self b) noexcept { return a = a + b; }
  AMP_HD friend constexpr Self& operator-=(Self& a, Self b) noexcept { return a = a - b; }
  AMP_HD friend constexpr Self& operator*=(Self& a, Self b) noexcept { return a = a * b; }
  AMP_HD friend constexpr Self& operator/=(Self& a, Self b) noexcept { return a = a / b; }
  AMP_HD friend constexpr Self& operator++(Self& a) noexcept { return a += Self(1.f); }
  AMP_HD friend constexpr Self& operator--(Self& a) noexcept { return a -= Self(1.f); }

  AMP_HD friend constexpr bool operator==(Self a, Self b) noexcept { return float(a) == float(b); }
  AMP_HD friend constexpr auto operator<=>(Self a, Self b) noexcept { return float(a) <=> float(b); }

 private:
  storage_type bits_;
};

/// floor(n * log10(2)) for the small n of these formats.
constexpr int decimal_floor(int n) noexcept {
  const int scaled = n * 30103;
  return scaled >= 0 ? scaled / 100000 : -((-scaled + 99999) / 100000);
}

/// std::numeric_limits of a low float.
template <class T>
struct low_limits {
 private:
  using L = typename T::layout;
  static constexpr T value(std::uint32_t bits) noexcept {
    return T::from_bits(static_cast<typename T::storage_type>(bits));
  }
  static constexpr bool ieee = L::kind == specials::ieee;
  static constexpr int top = static_cast<int>(L::max_bits >> 23) - 127;  // the largest number is in [2^top, 2^(top+1))

 public:
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false, is_exact = false;
  static constexpr bool has_infinity = ieee, has_quiet_NaN = L::kind != specials::none, has_signaling_NaN = ieee;
  static constexpr bool is_iec559 = ieee && !L::fp32_range && sizeof(T) == 2;
  static constexpr bool is_bounded = true, is_modulo = false, traps = false, tinyness_before = false;
  static constexpr std::float_denorm_style has_denorm = std::denorm_present;
  static constexpr bool has_denorm_loss = false;
  static constexpr std::float_round_style round_style = std::round_to_nearest;
  static constexpr int radix = 2, digits = L::mantissa_bits + 1;
  static constexpr int digits10 = decimal_floor(L::mantissa_bits), max_digits10 = 2 + decimal_floor(digits);
  static constexpr int min_exponent = 2 - L::bias, max_exponent = top + 1;
  static constexpr int min_exponent10 = -decimal_floor(L::bias - 1), max_exponent10 = decimal_floor(top);
  static constexpr T min() noexcept { return value(1u << L::mantissa_bits); }
  static constexpr T lowest() noexcept { return value(L::max_code | L::sign_bit); }
  static constexpr T max() noexcept { return value(L::max_code); }
  static constexpr T epsilon() noexcept { return T(power_of_two(-L::mantissa_bits)); }
  static constexpr T round_error() noexcept { return T(0.5f); }
  /// Zero where the format has none, as the standard says.
  static constexpr T infinity() noexcept { return value(ieee ? L::overflow_code : 0u); }
  static constexpr T quiet_NaN() noexcept { return value(has_quiet_NaN ? L::nan_code : 0u); }
  static constexpr T signaling_NaN() noexcept {
    return value(ieee ? L::infinity | (L::mantissa_bits > 1 ? 1u << (L::mantissa_bits - 2) : 1u) : 0u);
  }
  static constexpr T denorm_min() noexcept { return value(1u); }
};

/// std::hash of a low float: -0 equals 0.
template <class T>
struct low_hash {
  std::size_t operator()(T value) const noexcept {
    using L = typename T::layout;
    const std::size_t bits = value.bits();
    return L::kind != specials::unsigned_zero && bits == L::sign_bit ? 0u : bits * std::size_t{0x9e3779b9u};
  }
};

}  // namespace amp::detail
