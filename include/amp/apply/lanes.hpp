/// Lanes: how each list of a call is read and written. The functor sees floats only, and knows nothing of this.
#pragma once
#include <amp/core/check.hpp>
#include <amp/core/config.hpp>
#include <amp/half_traits.hpp>
#include <amp/simd/load.hpp>
#include <amp/simd/math.hpp>
#include <amp/simd/vec.hpp>
#include <amp/tensor/list.hpp>
#include <cstdint>
#include <type_traits>

namespace amp {

/// Collects what checked lanes find. Calls set it and never clear it.
struct nonfinite_report {
  int flag = 0;                    ///< 1 after an infinite or NaN element
  std::int64_t first_tensor = -1;  ///< the smallest index of a tensor with one, of the call that set the flag

  [[nodiscard]] bool found() const noexcept { return flag != 0; }
  void add(std::int64_t tensor) noexcept {
    if (tensor < 0) return;
    if (flag == 0) first_tensor = tensor;
    flag = 1;
  }
};

namespace lane {

/// No format: a copy that an entry does not have.
struct none {};
/// In the place of a copy's format: bf16 weights with 16-bit remainders, beside moments of format M.
template <class M>
struct split {};
template <class>
inline constexpr bool is_split = false;
template <class M>
inline constexpr bool is_split<split<M>> = true;

/// References bind a lane to one range of one tensor: what the inner loop loads and stores. V float or vec, T its
/// format.
namespace ref {
template <class V, bool On>
struct finite_check {
  AMP_INLINE void see(const V&, std::int32_t) {}
  AMP_INLINE bool found() const { return false; }
};
template <class V>
struct finite_check<V, true> {
  simd::mask_of<V> seen{};
  AMP_INLINE void see(const V& x, std::int32_t limit) { seen = seen | simd::reaches(x, limit); }
  AMP_INLINE bool found() const { return simd::any(seen); }
};

template <class V, class T, bool Scaled, bool Checked>
struct input {
  static constexpr bool writes = false;
  const T* p;
  float scale;
  finite_check<V, Checked> check{};

  template <class Part>
  AMP_INLINE void load(std::int64_t i, Part part, V& x) {
    x = simd::load<V>(p + i, part);
    check.see(x, 0x7f800000);
    if constexpr (Scaled) x = scale * x;
  }
  template <class Part>
  AMP_INLINE void store(std::int64_t, Part, const V&) {}
  AMP_INLINE bool found() const { return check.found(); }
};

template <class V, class T, bool Checked>
struct output {
  static constexpr bool writes = true;
  T* p;
  std::int32_t limit;
  finite_check<V, Checked> check{};

  template <class Part>
  AMP_INLINE void load(std::int64_t, Part, V& x) {
    x = V(0.f);
  }
  template <class Part>
  AMP_INLINE void store(std::int64_t i, Part part, const V& x) {
    if constexpr (Checked && std::is_same_v<Part, simd::part>) {
      alignas(64) float kept[simd::lanes<V>] = {};  // a functor may make anything of the lanes beyond the end
      simd::store(kept, x, part);
      check.see(simd::load<V>(kept), limit);
    } else {
      check.see(x, limit);
    }
    simd::store(p + i, x, part);
  }
  AMP_INLINE bool found() const { return check.found(); }
};

template <class V, class T, class Copy>
struct inout {
  static constexpr bool writes = true;
  T* p;
  Copy* copy;

  template <class Part>
  AMP_INLINE void load(std::int64_t i, Part part, V& x) {
    x = simd::load<V>(p + i, part);
  }
  template <class Part>
  AMP_INLINE void store(std::int64_t i, Part part, const V& x) {
    simd::store(p + i, x, part);
    if constexpr (!std::is_same_v<Copy, none>) simd::store(copy + i, x, part);
  }
  AMP_INLINE bool found() const { return false; }
};
}  // namespace ref

namespace detail {
template <class T>
[[nodiscard]] AMP_INLINE bool stored_as(const tensor_view& tensor) {
  return tensor.type == half_traits<T>::id;
}
template <class T>
[[nodiscard]] AMP_INLINE T* at(const tensor_view& tensor, std::int64_t offset) {
  return static_cast<T*>(tensor.data) + offset;
}
[[nodiscard]] inline std::int32_t overflow_bits(dtype type) {
  return visit(type, []<class T>(std::type_identity<T>) { return half_traits<T>::overflow_bits; });
}
}  // namespace detail

/// A lane that is read. `In` below is the format of read lanes, `Out` that of written ones, `Copy` that of copies.
template <bool Scaled, bool Checked>
struct input {
  tensor_list list;
  float scale = 1.f;
  nonfinite_report* report = nullptr;

  static constexpr bool reads = true, writes = false, copies = false, checked = Checked;

  /// Reports elements that are infinite or NaN before the scale is applied.
  [[nodiscard]] input<Scaled, true> check(nonfinite_report& into) const noexcept { return {list, scale, &into}; }

  [[nodiscard]] AMP_INLINE const tensor_view& tensor(std::int64_t t) const { return list[static_cast<std::size_t>(t)]; }
  template <class In, class, class>
  [[nodiscard]] AMP_INLINE bool matches(std::int64_t t) const {
    return detail::stored_as<In>(tensor(t));
  }
  template <class V, class In, class, class>
  [[nodiscard]] AMP_INLINE auto bind(std::int64_t t, std::int64_t offset) const {
    return ref::input<V, In, Scaled, Checked>{detail::at<const In>(tensor(t), offset), scale};
  }
  template <class V>
  [[nodiscard]] AMP_INLINE auto bind_floats(std::int64_t, float* p) const {
    return ref::input<V, float, Scaled, Checked>{p, scale};
  }
};

/// A lane that is written and not read: the functor finds 0 in it.
template <bool Checked>
struct output {
  tensor_list list;
  nonfinite_report* report = nullptr;

  static constexpr bool reads = false, writes = true, copies = false, checked = Checked;

  /// Reports elements that are infinite or NaN once rounded to the list's format.
  [[nodiscard]] output<true> check(nonfinite_report& into) const noexcept { return {list, &into}; }

  [[nodiscard]] AMP_INLINE const tensor_view& tensor(std::int64_t t) const { return list[static_cast<std::size_t>(t)]; }
  template <class, class Out, class>
  [[nodiscard]] AMP_INLINE bool matches(std::int64_t t) const {
    return detail::stored_as<Out>(tensor(t));
  }
  template <class V, class, class Out, class>
  [[nodiscard]] AMP_INLINE auto bind(std::int64_t t, std::int64_t offset) const {
    return ref::output<V, Out, Checked>{detail::at<Out>(tensor(t), offset), half_traits<Out>::overflow_bits};
  }
  template <class V>
  [[nodiscard]] AMP_INLINE auto bind_floats(std::int64_t t, float* p) const {
    return ref::output<V, float, Checked>{p, Checked ? detail::overflow_bits(tensor(t).type) : 0};
  }
};

/// A lane that is read and written.
struct inout_lane {
  tensor_list list;

  static constexpr bool reads = true, writes = true, copies = false, checked = false;

  [[nodiscard]] AMP_INLINE const tensor_view& tensor(std::int64_t t) const { return list[static_cast<std::size_t>(t)]; }
  template <class, class, class>
  [[nodiscard]] AMP_INLINE bool matches(std::int64_t t) const {
    return detail::stored_as<float>(tensor(t));
  }
  template <class V, class, class, class>
  [[nodiscard]] AMP_INLINE auto bind(std::int64_t t, std::int64_t offset) const {
    return ref::inout<V, float, none>{detail::at<float>(tensor(t), offset), nullptr};
  }
  template <class V>
  [[nodiscard]] AMP_INLINE auto bind_floats(std::int64_t, float* p) const {
    return ref::inout<V, float, none>{p, nullptr};
  }
};

/// A lane that is read and written, and whose result is also stored, rounded, in a second list. An entry of
/// `copies_list` with null data has no copy.
struct inout_copy_lane {
  tensor_list list;
  tensor_list copies_list;

  static constexpr bool reads = true, writes = true, copies = true, checked = false;

  [[nodiscard]] AMP_INLINE const tensor_view& tensor(std::int64_t t) const { return list[static_cast<std::size_t>(t)]; }
  [[nodiscard]] AMP_INLINE const tensor_view& copy(std::int64_t t) const {
    return copies_list[static_cast<std::size_t>(t)];
  }
  template <class, class, class Copy>
  [[nodiscard]] AMP_INLINE bool matches(std::int64_t t) const {
    if (!detail::stored_as<float>(tensor(t))) return false;
    if constexpr (std::is_same_v<Copy, none>) {
      return copy(t).data == nullptr;
    } else {
      return copy(t).data != nullptr && detail::stored_as<Copy>(copy(t));
    }
  }
  template <class V, class, class, class Copy>
  [[nodiscard]] AMP_INLINE auto bind(std::int64_t t, std::int64_t offset) const {
    Copy* to = nullptr;
    if constexpr (!std::is_same_v<Copy, none>) to = detail::at<Copy>(copy(t), offset);
    return ref::inout<V, float, Copy>{detail::at<float>(tensor(t), offset), to};
  }
  template <class V>
  [[nodiscard]] AMP_INLINE auto bind_floats(std::int64_t, float* p) const {
    return ref::inout<V, float, none>{p, nullptr};
  }
};

/// Reads a list.
[[nodiscard]] inline input<false, false> in(tensor_list list) noexcept { return {list}; }
/// Reads a list times a uniform factor; the product is rounded once, to fp32.
[[nodiscard]] inline input<true, false> in(tensor_list list, float scale) noexcept { return {list, scale}; }
/// Writes a list.
[[nodiscard]] inline output<false> out(tensor_list list) noexcept { return {list}; }
/// Reads and writes a list.
[[nodiscard]] inline inout_lane inout(tensor_list list) noexcept { return {list}; }
/// Reads and writes a list (fp32 masters), and stores the rounded result in `copies` too (low parameters).
[[nodiscard]] inline inout_copy_lane inout_with_copy(tensor_list masters, tensor_list copies) noexcept {
  return {masters, copies};
}

template <class L>
concept Lane = requires(const L& l) {
  { l.list } -> std::convertible_to<tensor_list>;
  { L::reads } -> std::convertible_to<bool>;
  { L::writes } -> std::convertible_to<bool>;
};

}  // namespace lane
}  // namespace amp
