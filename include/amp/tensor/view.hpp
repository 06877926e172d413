/// A tensor as the engine sees it: pointer, element count and run-time format; owns nothing.
#pragma once
#include <amp/core/dtype.hpp>
#include <amp/half_traits.hpp>
#include <concepts>
#include <cstdint>
#include <iterator>
#include <ranges>
#include <string_view>
#include <type_traits>

namespace amp {

/// Dense elements of a format that is known at run time. `name` (optional) appears in errors and must outlive the view.
struct tensor_view {
  void* data = nullptr;
  std::int64_t size = 0;  ///< elements
  dtype type = dtype::fp32;
  bool readonly = false;  ///< an output lane refuses it
  std::string_view name = {};
};

/// Dense elements of a format that is known at compile time.
template <Storage T>
struct view {
  T* data = nullptr;
  std::int64_t size = 0;
  std::string_view name = {};

  operator tensor_view() const noexcept { return {data, size, half_traits<T>::id, false, name}; }  // NOLINT
};

/// Hook for tensor classes that are no contiguous range: specialise with `static tensor_view view(X&)`, where X is the
/// class or its const.
template <class X>
struct view_traits;

/// A view of `size` elements at `data`, of any type with the layout of one of our formats; const data is read-only.
template <class T>
requires LayoutCompatible<T>
[[nodiscard]] tensor_view as_view(T* data, std::int64_t size, std::string_view name = {}) noexcept {
  return {const_cast<std::remove_const_t<T>*>(data), size, dtype_of<std::remove_const_t<T>>, std::is_const_v<T>, name};
}
[[nodiscard]] inline tensor_view as_view(const tensor_view& view) noexcept { return view; }

template <class R>
concept DenseRange =
    std::ranges::contiguous_range<R> && std::ranges::sized_range<R> && LayoutCompatible<std::ranges::range_value_t<R>>;

/// A view of a vector, array, span or other contiguous range.
template <DenseRange R>
[[nodiscard]] tensor_view as_view(R&& range, std::string_view name = {}) noexcept {
  return as_view(std::ranges::data(range), static_cast<std::int64_t>(std::ranges::size(range)), name);
}
template <class X>
requires requires(X& x) {
  { view_traits<std::remove_cv_t<X>>::view(x) } -> std::convertible_to<tensor_view>;
}
[[nodiscard]] tensor_view as_view(X& x) { return view_traits<std::remove_cv_t<X>>::view(x); }

/// What a list of tensors may hold.
template <class X>
concept Viewable = std::convertible_to<X, tensor_view> || requires(X& x) {
  as_view(x);
};

}  // namespace amp
