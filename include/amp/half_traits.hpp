/// Compile-time facts of every storage format, and the concepts over them.
#pragma once
#include <amp/core/check.hpp>
#include <amp/core/dtype.hpp>
#include <amp/formats/bfloat16.hpp>
#include <amp/formats/half.hpp>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

namespace amp {

/// Facts of a format. No primary definition: specialise to add a format, and the engine serves it.
/// `encode`/`decode` map fp32 bits to the format's bits and back, for one std::uint32_t and for vectors of them.
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
  /// The smallest fp32 magnitude, as bits, that is not finite once stored in this format.
  static constexpr std::int32_t overflow_bits = 0x7f800000;
};

template <>
struct half_traits<half> {
  using storage_type = std::uint16_t;
  using compute_type = float;
  using accumulate_type = float;
  static constexpr dtype id = dtype::fp16;
  static constexpr int exponent_bits = 5, mantissa_bits = 10, bias = 15, digits = 11;
  static constexpr float max = 65504.f, min_normal = 0x1p-14f, denorm_min = 0x1p-24f, epsilon = 0x1p-10f;
  static constexpr bool has_infinity = true, has_nan = true, has_negative_zero = true;
  static constexpr bool wants_loss_scale = true;             ///< gradients below 2^-24 underflow
  static constexpr std::int32_t overflow_bits = 0x477ff000;  // 65520
  template <class U>
  AMP_HD AMP_INLINE static constexpr U encode(const U& x) {
    return detail::half_from_float_bits(x);
  }
  template <class U>
  AMP_HD AMP_INLINE static constexpr U decode(const U& x) {
    return detail::half_to_float_bits(x);
  }
};

template <>
struct half_traits<bfloat16> {
  using storage_type = std::uint16_t;
  using compute_type = float;
  using accumulate_type = float;
  static constexpr dtype id = dtype::bf16;
  static constexpr int exponent_bits = 8, mantissa_bits = 7, bias = 127, digits = 8;
  static constexpr float max = 0x1.fep127f, min_normal = 0x1p-126f, denorm_min = 0x1p-133f, epsilon = 0x1p-7f;
  static constexpr bool has_infinity = true, has_nan = true, has_negative_zero = true;
  static constexpr bool wants_loss_scale = false;  ///< fp32's exponent range: gradients do not underflow
  static constexpr std::int32_t overflow_bits = 0x7f7f8000;
  template <class U>
  AMP_HD AMP_INLINE static constexpr U encode(const U& x) {
    return detail::bf16_from_float_bits(x);
  }
  template <class U>
  AMP_HD AMP_INLINE static constexpr U decode(const U& x) {
    return detail::bf16_to_float_bits(x);
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
template <Storage T>
struct format_of<T> {
  using type = T;
};
#if defined(__FLT16_MAX__) && defined(__cplusplus)
template <>
struct format_of<_Float16> {
  using type = half;
};
#endif

template <class T>
using format_t = typename format_of<std::remove_cv_t<T>>::type;

/// A type whose values lie in memory exactly as one of our formats.
template <class T>
concept LayoutCompatible = requires {
  typename format_of<std::remove_cv_t<T>>::type;
}
&&std::is_trivially_copyable_v<T> && sizeof(T) == sizeof(format_t<T>);

template <LayoutCompatible T>
inline constexpr dtype dtype_of = half_traits<format_t<T>>::id;

/// The same bits as our type: `bit_view(c10::Half(1.5))` is an amp::half.
template <LayoutCompatible T>
[[nodiscard]] constexpr format_t<T> bit_view(const T& value) noexcept {
  return __builtin_bit_cast(format_t<T>, value);
}
/// The same bits as a foreign type: `bit_view_as<c10::Half>(amp::half(1.5f))`.
template <LayoutCompatible T>
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
  }
  throw error("unknown dtype " + std::to_string(static_cast<int>(type)) + "; use fp32, fp16 or bf16", at);
}

}  // namespace amp
