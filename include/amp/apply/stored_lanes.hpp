/// Lanes of what a step keeps: weights with whatever completes them, and moments in narrow formats with scales. The
/// functor sees fp32 and knows nothing of this; new forms take the scratch path, with equal bits everywhere.
#pragma once
#include <amp/apply/engine.hpp>
#include <amp/apply/lanes.hpp>
#include <amp/apply/stored_forms.hpp>
#include <amp/apply/stored_kernels.hpp>
#include <amp/core/config.hpp>
#include <amp/half_traits.hpp>
#include <amp/tensor/list.hpp>
#include <cstdint>
#include <type_traits>

namespace amp {

/// What completes a weight that is stored in a low format.
enum class completion : std::uint8_t {
  none,          ///< nothing: rounded to nearest
  remainder,     ///< bf16 only: the lower 16 bits of the fp32 word
  compensation,  ///< what rounding left, in bf16
  random,        ///< nothing: rounded up or down at random
  scale          ///< the list holds masters, in a format with a scale
};

namespace lane {

namespace ref {
/// A bf16 weight with its remainder.
template <class V>
struct split_weight {
  static constexpr bool writes = true;
  apply::word_half* upper;
  apply::word_half* lower;

  template <class Part>
  AMP_INLINE void load(std::int64_t i, Part part, V& x) {
    x = apply::joined(simd::load<V>(upper + i, part), simd::load<V>(lower + i, part));
  }
  template <class Part>
  AMP_INLINE void store(std::int64_t i, Part part, const V& x) {
    simd::store(upper + i, apply::upper_half(x), part);
    simd::store(lower + i, apply::lower_half(x), part);
  }
  AMP_INLINE bool found() const { return false; }
};
}  // namespace ref

namespace detail {
template <class Copy>
struct moment_type : std::type_identity<float> {};
template <class M>
struct moment_type<split<M>> : std::type_identity<M> {};
}  // namespace detail
/// The format of moments in a fused loop.
template <class Copy>
using stored_type = typename detail::moment_type<Copy>::type;

/// Moments: fp32, bf16, or any format with scales.
struct moments {
  tensor_list list;
  scale_list scales{};
  draw_list draws{};
  pass work = pass::store;

  static constexpr bool reads = true, writes = true, copies = false, checked = false;

  [[nodiscard]] AMP_INLINE const tensor_view& tensor(std::int64_t t) const { return list[static_cast<std::size_t>(t)]; }
  [[nodiscard]] AMP_INLINE bool direct(std::int64_t t) const {
    return tensor(t).type == dtype::fp32 && work == pass::store;
  }
  template <class, class, class Copy>
  [[nodiscard]] AMP_INLINE bool matches(std::int64_t t) const {
    if constexpr (is_split<Copy>) {
      const bool plain = work == pass::store && scales.empty() && draws.stream.empty();
      return plain && detail::stored_as<stored_type<Copy>>(tensor(t));
    } else {
      return direct(t);
    }
  }
  template <class V, class, class, class Copy>
  [[nodiscard]] AMP_INLINE auto bind(std::int64_t t, std::int64_t offset) const {
    using T = stored_type<Copy>;
    return ref::inout<V, T, none>{detail::at<T>(tensor(t), offset), nullptr};
  }
  template <class V>
  [[nodiscard]] AMP_INLINE auto bind_floats(std::int64_t, float* p) const {
    return ref::inout<V, float, none>{p, nullptr};
  }
  template <class V>
  [[nodiscard]] float* stage(std::int64_t t, std::int64_t offset, std::int64_t n, float* buffer) const {
    if (direct(t)) return detail::at<float>(tensor(t), offset);
    apply::load_stored<V>(tensor(t), scales, t, offset, n, buffer);
    return buffer;
  }
  template <class V>
  void unstage(std::int64_t t, std::int64_t offset, std::int64_t n, const float* values) const {
    if (direct(t)) return;
    if (work == pass::store) return apply::store_stored<V>(values, n, tensor(t), scales, draws, t, offset);
    apply::measure<V>(values, n, scales, work, t);
  }
};

/// Weights: fp32 ones, fp32 masters with low copies, or low ones with their completion.
struct weights {
  tensor_list list;
  tensor_list copies_list;  ///< low copies of masters; null data where there is none
  tensor_list rest{};       ///< remainders or compensations, 16 bits an element; null data where there is none
  completion form = completion::none;
  scale_list scales{};
  draw_list draws{};
  pass work = pass::store;

  static constexpr bool reads = true, writes = true, copies = true, checked = false, splits = true;

  [[nodiscard]] AMP_INLINE const tensor_view& tensor(std::int64_t t) const { return list[static_cast<std::size_t>(t)]; }
  [[nodiscard]] AMP_INLINE const tensor_view& copy(std::int64_t t) const {
    return copies_list[static_cast<std::size_t>(t)];
  }
  [[nodiscard]] AMP_INLINE bool wide(std::int64_t t) const {
    return tensor(t).type == dtype::fp32 && work == pass::store;
  }
  [[nodiscard]] AMP_INLINE bool direct(std::int64_t t) const { return wide(t) && copy(t).data == nullptr; }
  template <class, class, class Copy>
  [[nodiscard]] AMP_INLINE bool matches(std::int64_t t) const {
    if constexpr (is_split<Copy>) {
      return work == pass::store && form_of(t) == completion::remainder;
    } else if constexpr (std::is_same_v<Copy, none>) {
      return direct(t);
    } else {
      return wide(t) && draws.stream.empty() && copy(t).data != nullptr && detail::stored_as<Copy>(copy(t));
    }
  }
  template <class V, class, class, class Copy>
  [[nodiscard]] AMP_INLINE auto bind(std::int64_t t, std::int64_t offset) const {
    if constexpr (is_split<Copy>) {
      return ref::split_weight<V>{detail::at<apply::word_half>(tensor(t), offset),
                                  detail::at<apply::word_half>(rest[static_cast<std::size_t>(t)], offset)};
    } else {
      Copy* to = nullptr;
      if constexpr (!std::is_same_v<Copy, none>) to = detail::at<Copy>(copy(t), offset);
      return ref::inout<V, float, Copy>{detail::at<float>(tensor(t), offset), to};
    }
  }
  template <class V>
  [[nodiscard]] AMP_INLINE auto bind_floats(std::int64_t, float* p) const {
    return ref::inout<V, float, none>{p, nullptr};
  }
  template <class V>
  [[nodiscard]] float* stage(std::int64_t t, std::int64_t offset, std::int64_t n, float* buffer) const;
  template <class V>
  void unstage(std::int64_t t, std::int64_t offset, std::int64_t n, const float* values) const;

 private:
  /// The completion of one tensor: fp32 ones need none.
  [[nodiscard]] completion form_of(std::int64_t t) const noexcept {
    return tensor(t).type == dtype::fp32 ? completion::none : form;
  }
};

template <class V>
float* weights::stage(std::int64_t t, std::int64_t offset, std::int64_t n, float* buffer) const {
  if (wide(t)) return detail::at<float>(tensor(t), offset);
  const tensor_view& w = tensor(t);
  switch (form_of(t)) {
    case completion::remainder:
      simd::call_kernel<V, apply::join_remainder, const apply::word_half*, const apply::word_half*>(
          detail::at<apply::word_half>(w, offset),
          detail::at<apply::word_half>(rest[static_cast<std::size_t>(t)], offset), n, buffer);
      break;
    case completion::compensation:
      visit(w.type, [&]<class T>(std::type_identity<T>) {
        if constexpr (sizeof(T) == 2) {
          simd::call_kernel<V, apply::join_compensation<T>, const T*, const bfloat16*>(
              detail::at<T>(w, offset), detail::at<bfloat16>(rest[static_cast<std::size_t>(t)], offset), n, buffer);
        }
      });
      break;
    case completion::scale:
      apply::load_stored<V>(w, scales, t, offset, n, buffer);
      break;
    case completion::none:
    case completion::random:
      apply::decode<V>(w, offset, n, buffer);
  }
  return buffer;
}

template <class V>
void weights::unstage(std::int64_t t, std::int64_t offset, std::int64_t n, const float* values) const {
  const tensor_view& w = tensor(t);
  const completion how = form_of(t);
  if (work != pass::store) return how == completion::scale ? apply::measure<V>(values, n, scales, work, t) : void();
  switch (how) {
    case completion::remainder:
      simd::call_kernel<V, apply::split_remainder, const float*, std::int64_t, apply::word_half*, apply::word_half*>(
          values, n, detail::at<apply::word_half>(w, offset),
          detail::at<apply::word_half>(rest[static_cast<std::size_t>(t)], offset));
      break;
    case completion::compensation:
      visit(w.type, [&]<class T>(std::type_identity<T>) {
        if constexpr (sizeof(T) == 2) {
          simd::call_kernel<V, apply::split_compensation<T>, const float*, std::int64_t, T*, bfloat16*>(
              values, n, detail::at<T>(w, offset), detail::at<bfloat16>(rest[static_cast<std::size_t>(t)], offset));
        }
      });
      break;
    case completion::scale: {
      apply::store_stored<V>(values, n, w, scales, draws, t, offset);
      alignas(64) float stored[apply::scratch_elements];
      apply::load_stored<V>(w, scales, t, offset, n, stored, scales.block == 0);
      if (copy(t).data != nullptr) apply::encode<V>(stored, n, copy(t), offset);  // low = round(master), as ever
      break;
    }
    case completion::random:
      apply::encode_stored<V>(values, n, w, draws, t, offset);
      break;
    case completion::none:
      if (w.type != dtype::fp32) apply::encode<V>(values, n, w, offset);
      if (copy(t).data != nullptr) apply::encode_stored<V>(values, n, copy(t), draws, t, offset);
  }
}

}  // namespace lane
}  // namespace amp
