/// Compile-time facts of every storage format, and the concepts over them.
#pragma once
#include <amp/core/check.hpp>
#include <amp/core/dtype.hpp>
#include <amp/formats/bfloat16.hpp>
#include <amp/formats/e8m0.hpp>
#include <amp/formats/fp4.hpp>
#include <amp/formats/fp8.hpp>
#include <amp/formats/half.hpp>
#include <amp/formats/layout.hpp>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

namespace amp {

/// Facts of a format. No primary definition: specialise to add a format, and the engine serves it.
/// `encode`/`decode` map fp32 bits to the format's bits and back, for one std::uint32_t and for vectors of them. With
/// an `id` the format is one that tensors are stored in.
template <class T>
struct half_traits;

template <>
struct half_traits<float> {
  using storage_type = float;
  using compute_type = float;
  using accumulate_type = float;
  static constexpr dtype id = dtype::fp32;
  static constexpr int exponent_bits = 8, mantissa_bits = 23, bias = 127, digits = 24;
  static constexpr float max = 0x1.fffffep127f, min_normal = 0x1p-126f, denorm_min = 0x1p-149f, epsilon = 0x1p-23f;
  static constexpr bool has_infinity = true, has_nan = true, has_negative_zero = true;
  static constexpr bool wants_loss_scale = false;
  /// The smallest fp32 magnitude, as bits, that is beyond the range once stored in this format.
  static constexpr std::int32_t overflow_bits = 0x7f800000;
};

namespace detail {
/// The facts of a low float, from its layout.
template <class T>
struct low_traits {
  using layout = typename T::layout;
  using storage_type = typename T::storage_type;
  using compute_type = float;
  using accumulate_type = float;
  static constexpr int exponent_bits = layout::exponent_bits, mantissa_bits = layout::mantissa_bits,
                       bias = layout::bias, digits = layout::mantissa_bits + 1;
  static constexpr float max =
      static_cast<float>((layout::max_code & ((1u << mantissa_bits) - 1u)) + (1u << mantissa_bits)) *
      power_of_two(static_cast<int>(layout::max_code >> mantissa_bits) - bias - mantissa_bits);
  static constexpr float min_normal = power_of_two(1 - bias), denorm_min = layout::denorm_min,
                         epsilon = power_of_two(-mantissa_bits);
  static constexpr bool has_infinity = layout::kind == specials::ieee, has_nan = layout::kind != specials::none,
                        has_negative_zero = layout::kind != specials::unsigned_zero;
  /// True unless the format has fp32's exponent range: gradients would underflow.
  static constexpr bool wants_loss_scale = !layout::fp32_range;
  static constexpr std::int32_t overflow_bits = layout::overflow_bits;

  template <class U>
  AMP_HD AMP_INLINE static constexpr U encode(const U& x) {
    return detail::encode<layout>(x);
  }
  /// Beyond the range, infinities too: the largest number.
  template <class U>
  AMP_HD AMP_INLINE static constexpr U encode_saturating(const U& x) {
    return detail::encode<layout, true>(x);
  }
  /// With 32 random bits per value (simd/random.hpp).
  template <class U>
  AMP_HD AMP_INLINE static constexpr U encode_stochastic(const U& x, const U& random) {
    return detail::encode_stochastic<layout>(x, random);
  }
  template <class U>
  AMP_HD AMP_INLINE static constexpr U encode_stochastic_saturating(const U& x, const U& random) {
    return detail::encode_stochastic<layout, true>(x, random);
  }
  template <class U>
  AMP_HD AMP_INLINE static constexpr U decode(const U& x) {
    return detail::decode<layout>(x);
  }
};
/// Those of one that tensors are stored in.
template <class T, dtype Id>
struct stored_traits : low_traits<T> {
  static constexpr dtype id = Id;
};
}  // namespace detail

template <>
struct half_traits<half> : detail::stored_traits<half, dtype::fp16> {};
template <>
struct half_traits<bfloat16> : detail::stored_traits<bfloat16, dtype::bf16> {};
template <>
struct half_traits<e4m3> : detail::stored_traits<e4m3, dtype::e4m3> {};
template <>
struct half_traits<e5m2> : detail::stored_traits<e5m2, dtype::e5m2> {};
template <>
struct half_traits<e4m3fnuz> : detail::stored_traits<e4m3fnuz, dtype::e4m3fnuz> {};
template <>
struct half_traits<e5m2fnuz> : detail::stored_traits<e5m2fnuz, dtype::e5m2fnuz> {};
/// No `id`: two values share a byte, so no tensor of our lists is stored in it.
template <>
struct half_traits<e2m1> : detail::low_traits<e2m1> {};
/// A scale, no element of a tensor: no `id`, no sign, no zero, no subnormals.
template <>
struct half_traits<e8m0> {
  using storage_type = std::uint8_t;
  using compute_type = float;
  using accumulate_type = float;
  static constexpr int exponent_bits = 8, mantissa_bits = 0, bias = 127, digits = 1;
  static constexpr float max = 0x1p127f, min_normal = 0x1p-127f, epsilon = 1.f;
  static constexpr bool has_infinity = false, has_nan = true, has_negative_zero = false;
  template <class U>
  AMP_HD AMP_INLINE static constexpr U encode(const U& x) {
    return detail::e8m0_round_up(x);
  }
  template <class U>
  AMP_HD AMP_INLINE static constexpr U decode(const U& x) {
    return detail::e8m0_decode(x);
  }
};

/// A format narrower than fp32.
template <class T>
concept LowPrecision = !std::same_as<T, float> && requires {
  { half_traits<T>::id } -> std::convertible_to<dtype>;
};
/// A format that a tensor may be stored in.
template <class T>
concept Storage = std::same_as<T, float> || LowPrecision<T>;

/// Which of our formats a type has the layout of. Specialise it for a foreign type, and tensors of that type are used
/// in place, without a copy and without a cast in user code:
///   template <> struct amp::format_of<c10::Half> { using type = amp::half; };
/// The foreign type must be trivially copyable, of the same size and with the same bits.
template <class T>
struct format_of;
template <class T>
requires requires { half_traits<T>::mantissa_bits; }
struct format_of<T> {
  using type = T;
};
#if defined(__FLT16_MAX__) && defined(__cplusplus)
/// std::float16_t too, where the library has it: the same type.
template <>
struct format_of<_Float16> {
  using type = half;
};
#endif
#if defined(__BFLT16_MAX__) && defined(__cplusplus)
/// std::bfloat16_t too.
template <>
struct format_of<__bf16> {
  using type = bfloat16;
};
#endif

template <class T>
using format_t = typename format_of<std::remove_cv_t<T>>::type;

/// A type whose values are the bits of one of our formats.
template <class T>
concept BitCompatible = requires {
  typename format_of<std::remove_cv_t<T>>::type;
}
&&std::is_trivially_copyable_v<T> && sizeof(T) == sizeof(format_t<T>);
/// One that tensors are stored in: its values lie in memory as those of our format.
template <class T>
concept LayoutCompatible = BitCompatible<T> && Storage<format_t<T>>;

template <LayoutCompatible T>
inline constexpr dtype dtype_of = half_traits<format_t<T>>::id;

/// The same bits as our type: `bit_view(c10::Half(1.5))` is an amp::half.
template <BitCompatible T>
[[nodiscard]] constexpr format_t<T> bit_view(const T& value) noexcept {
  return __builtin_bit_cast(format_t<T>, value);
}
/// The same bits as a foreign type: `bit_view_as<c10::Half>(amp::half(1.5f))`.
template <BitCompatible T>
[[nodiscard]] constexpr T bit_view_as(const format_t<T>& value) noexcept {
  return __builtin_bit_cast(T, value);
}

/// Turns a run-time format into a type: `visit(t, [&]<class T>(std::type_identity<T>) { ... })`.
/// throws  amp::error for a value that names no format
template <class F>
decltype(auto) visit(dtype type, F&& f, where at = where::here()) {
  switch (type) {
    case dtype::fp32:
      return std::forward<F>(f)(std::type_identity<float>{});
    case dtype::fp16:
      return std::forward<F>(f)(std::type_identity<half>{});
    case dtype::bf16:
      return std::forward<F>(f)(std::type_identity<bfloat16>{});
    case dtype::e4m3:
      return std::forward<F>(f)(std::type_identity<e4m3>{});
    case dtype::e5m2:
      return std::forward<F>(f)(std::type_identity<e5m2>{});
    case dtype::e4m3fnuz:
      return std::forward<F>(f)(std::type_identity<e4m3fnuz>{});
    case dtype::e5m2fnuz:
      return std::forward<F>(f)(std::type_identity<e5m2fnuz>{});
  }
  throw error("unknown dtype " + std::to_string(static_cast<int>(type)) + "; use " + std::string(dtype_names), at);
}

}  // namespace amp
