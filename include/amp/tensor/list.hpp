/// Lists of tensors: what multi_tensor_apply walks.
#pragma once
#include <amp/tensor/view.hpp>
#include <cstdint>
#include <ranges>
#include <span>
#include <vector>

namespace amp {

/// A list as the engine takes it; the i-th tensors of all lists of a call belong together.
using tensor_list = std::span<const tensor_view>;

/// A range of things that have a view: spans, vectors, typed views, anything with view_traits.
template <class R>
concept ViewableRange =
    std::ranges::forward_range<R> && Viewable<std::remove_reference_t<std::ranges::range_reference_t<R>>>;

/// The views of a range of tensors, in order: `list_of(std::vector<std::span<float>>{...})`.
template <ViewableRange R>
[[nodiscard]] std::vector<tensor_view> list_of(R&& range) {
  std::vector<tensor_view> views;
  if constexpr (std::ranges::sized_range<R>) views.reserve(std::ranges::size(range));
  for (auto&& tensor : range) {
    if constexpr (std::convertible_to<decltype(tensor), tensor_view>) {
      views.push_back(tensor);
    } else {
      views.push_back(as_view(tensor));
    }
  }
  return views;
}

/// Elements of all tensors.
[[nodiscard]] constexpr std::int64_t total_size(tensor_list list) noexcept {
  std::int64_t sum = 0;
  for (const auto& tensor : list) sum += tensor.size;
  return sum;
}

}  // namespace amp
