/// Runs a functor over lists of tensors in one call.
#pragma once
#include <amp/apply/engine.hpp>
#include <amp/apply/exec.hpp>
#include <amp/apply/lanes.hpp>
#include <amp/apply/plan.hpp>
#include <amp/core/check.hpp>
#include <amp/tensor/list.hpp>
#include <array>
#include <concepts>
#include <cstdint>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace amp {

/// Takes one float per list, and one vec<float, N> per list: `V&` where the list is written, `const V&` where it is
/// read. Its call operator must be AMP_INLINE. With a member `at(piece)` it may differ from tensor to tensor.
template <class F, class... Lanes>
concept LaneFunctor = std::is_trivially_copyable_v<F> && std::invocable<const F&, Lanes...>;

namespace detail {

template <class A>
concept ViewRange =
    std::ranges::contiguous_range<A> && std::same_as<std::remove_cv_t<std::ranges::range_value_t<A>>, tensor_view>;
template <class A>
inline constexpr bool holds_const =
    std::is_const_v<std::remove_reference_t<A>> ||
    std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<std::remove_reference_t<A>>>>;

/// Element types that only read: `std::span<const float>`, a const vector.
template <class X>
concept ConstElements =
    std::ranges::range<X> && std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<X>>>;

/// Turns an argument into a lane, and keeps the views of a raw list alive during the call.
template <class A>
struct lane_source {
  using range = std::remove_reference_t<A>;
  std::vector<tensor_view> views{};
  tensor_list list{};
  explicit lane_source(range& argument) {
    if constexpr (ViewRange<range>) {
      list = tensor_list(std::ranges::data(argument), std::ranges::size(argument));
    } else {
      views = list_of(argument);
      list = views;
    }
  }
  auto lane() const {
    using element = std::remove_reference_t<std::ranges::range_reference_t<range>>;
    if constexpr (holds_const<A> || ConstElements<element>) {
      return lane::in(list);
    } else {
      return lane::inout(list);
    }
  }
};
template <class A>
requires lane::Lane<std::remove_cvref_t<A>>
struct lane_source<A> {
  const std::remove_cvref_t<A>& given;
  explicit lane_source(const std::remove_cvref_t<A>& argument) : given(argument) {}
  const auto& lane() const { return given; }
};

inline std::string label(std::int64_t list, std::size_t t, const tensor_view& tensor) {
  std::string text = "list " + std::to_string(list) + ", tensor " + std::to_string(t);
  if (!tensor.name.empty()) text += " (" + std::string(tensor.name) + ')';
  return text;
}

inline void check_list(std::int64_t index, tensor_list list, tensor_list first, bool writes, where at) {
  expects(
      list.size() == first.size(),
      [&] {
        return "list " + std::to_string(index) + " has " + std::to_string(list.size()) + " tensors where list 0 has " +
               std::to_string(first.size());
      },
      at);
  for (std::size_t t = 0; t < list.size(); ++t) {
    const tensor_view& tensor = list[t];
    if (tensor.size == first[t].size && tensor.size >= 0 && (tensor.data != nullptr || tensor.size == 0) &&
        known(tensor.type) && !(writes && tensor.readonly)) [[likely]] {
      continue;
    }
    const std::string what = label(index, t, tensor);
    expects(
        tensor.size == first[t].size,
        [&] {
          return what + " has " + std::to_string(tensor.size) + " elements where list 0 has " +
                 std::to_string(first[t].size);
        },
        at);
    expects(
        tensor.size >= 0, [&] { return what + " has the negative size " + std::to_string(tensor.size); }, at);
    expects(
        known(tensor.type), [&] { return what + " has an unknown dtype"; }, at);
    expects(
        !(writes && tensor.readonly),
        [&] { return what + " is read-only but would be written; pass the list through lane::in"; }, at);
    throw error(what + " has no data", at);
  }
}

/// Copies and completions differ from other lists: an entry with null data is one that the tensor does not have.
inline void check_beside(std::string_view what, std::int64_t index, tensor_list masters, tensor_list copies, where at) {
  expects(
      copies.size() == masters.size(),
      [&] {
        return std::string(what) + "list " + std::to_string(index) + " has " + std::to_string(copies.size()) +
               " tensors where the list has " + std::to_string(masters.size());
      },
      at);
  for (std::size_t t = 0; t < copies.size(); ++t) {
    const tensor_view& copy = copies[t];
    if (copy.data == nullptr) continue;
    expects(
        copy.size == masters[t].size && known(copy.type) && !copy.readonly,
        [&] {
          return std::string(what) + label(index, t, masters[t]) + " must be writable, of a known dtype and of " +
                 std::to_string(masters[t].size) + " elements; it has " + std::to_string(copy.size);
        },
        at);
  }
}

/// A list as it lies in memory: of a lane, or of the copies or completions that it writes besides.
struct placed_list {
  std::int64_t lane;
  tensor_list list;
  bool writes;
  std::string_view beside{};  ///< "the copy of ", where it is not the lane's own list
};

/// Tensors of one index lie at the same place or apart: else the bits would depend on the order of the work.
inline void check_overlap(const placed_list& first, const placed_list& second, where at) {
  const tensor_list a = first.list, b = second.list;
  const auto begin = [](const tensor_view& t) { return reinterpret_cast<std::uintptr_t>(t.data); };
  const auto bytes = [](const tensor_view& t) { return static_cast<std::uintptr_t>(t.size) * size_of(t.type); };
  for (std::size_t t = 0; t < a.size(); ++t) {
    const std::uintptr_t from_a = begin(a[t]), from_b = begin(b[t]), size_a = bytes(a[t]), size_b = bytes(b[t]);
    if (from_a >= from_b + size_b || from_b >= from_a + size_a || size_a == 0 || size_b == 0) continue;
    if (from_a == 0 || from_b == 0) continue;  // an entry that has no copy
    expects(
        from_a == from_b && size_a == size_b,
        [&] {
          return std::string(first.beside) + label(first.lane, t, a[t]) + " partly overlaps that of " +
                 std::string(second.beside) + "list " + std::to_string(second.lane) +
                 "; lists may share a tensor, not a part of one";
        },
        at);
  }
}

template <class... L>
void check_lanes(where at, const L&... lanes) {
  std::array<placed_list, 3 * sizeof...(L)> placed{};
  std::size_t count = 0;
  std::int64_t index = 0;
  const auto one = [&]<class Lane>(const Lane& lane) {
    check_list(index, lane.list, index == 0 ? lane.list : placed[0].list, Lane::writes, at);
    placed[count++] = {index, lane.list, Lane::writes};
    const auto beside = [&](std::string_view what, tensor_list list) {
      check_beside(what, index, lane.list, list, at);
      placed[count++] = {index, list, true, what};
    };
    if constexpr (Lane::copies) beside("the copy of ", lane.copies_list);
    if constexpr (requires { lane.rest; }) {
      if (!lane.rest.empty()) beside("the completion of ", lane.rest);
    }
    ++index;
  };
  (one(lanes), ...);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = i + 1; j < count; ++j) {
      if (placed[i].writes || placed[j].writes) check_overlap(placed[i], placed[j], at);
    }
  }
}

template <class E, class F, class... L>
void apply_lanes(where at, const E& executor, const F& functor, const L&... lanes) {
  static_assert(sizeof...(L) > 0, "amp: multi_tensor_apply needs at least one list");
  using simd::vec;
  static_assert(
      LaneFunctor<F, std::conditional_t<L::writes, float&, const float&>...> &&
          LaneFunctor<F, std::conditional_t<L::writes, vec<float, 4>&, const vec<float, 4>&>...>,
      "amp: the functor must be trivially copyable and take one float or vec<float, N> by reference per list, V& "
      "for a written list and const V& for a read one; are the lists in the functor's order?");
  check_lanes(at, lanes...);
  const auto first = [](const auto& lane, const auto&...) { return lane.list; };
  const apply::plan plan(first(lanes...), executor.chunk, at);
  using exec::launch;  // the host's, for executors of any namespace; others bring theirs by argument lookup
  constexpr bool launches = requires { launch(executor, plan, functor, lanes...); };
  static_assert(launches,
                "amp: this executor has no launch() here: include <amp/cuda/multi_tensor_apply.cuh> in a .cu file, or "
                "<amp/cuda/kernels.hpp> and link amp::kernels");
  if constexpr (launches) launch(executor, plan, functor, lanes...);
}

}  // namespace detail

/// Calls `functor(x0, x1, ...)` once for every element of every tensor, with one float (or vec) per list, by reference.
/// lists   lanes (lane::in, out, inout, inout_with_copy), or ranges of tensors: const ones, or ones of const elements,
/// are
///         read, others are read and written. The i-th tensors of all lists have equal sizes; formats may be mixed
/// result  does not depend, bit for bit, on the executor, its chunk size, threads or target; subnormal fp32 operands
/// count
///         as 0 (FTZ/DAZ), conversions keep the subnormals of low formats
/// alias   a tensor may appear in several lists at the same address, and read ones at any; a written tensor that partly
///         overlaps the one of its index in another list, or its copy, is an error, one of another index is undefined
/// throws  amp::error naming list and tensor
template <class E, class F, class... Lists>
void multi_tensor_apply(const E& executor, const F& functor, Lists&&... lists) {
  const auto call = [&](const auto&... source) {
    detail::apply_lanes(where::here(), executor, functor, source.lane()...);
  };
  call(detail::lane_source<Lists>(lists)...);
}

}  // namespace amp
