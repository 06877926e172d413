/// Eigen: low scalars in its matrices, its low scalars and matrices in our lists. Opt-in: the target amp::eigen brings
/// Eigen.
#pragma once
#include <Eigen/Core>
#include <amp/formats/bfloat16.hpp>
#include <amp/formats/fp8.hpp>
#include <amp/formats/half.hpp>
#include <amp/half_traits.hpp>
#include <amp/tensor/view.hpp>
#include <limits>
#include <type_traits>

/// Eigen's own low types have the bits of ours and are used in place.
template <>
struct amp::format_of<Eigen::half> {
  using type = amp::half;
};
template <>
struct amp::format_of<Eigen::bfloat16> {
  using type = amp::bfloat16;
};

namespace amp::detail {
/// A matrix, array or map whose elements lie densely: lists take them as they take vectors.
template <class X>
struct eigen_view {
  template <class Y>
  [[nodiscard]] static tensor_view view(Y& x) noexcept {
    return as_view(x.data(), static_cast<std::int64_t>(x.size()));
  }
};
/// What Eigen has to know of a low scalar. The numbers are those of std::numeric_limits.
template <class T>
struct eigen_traits : Eigen::GenericNumTraits<T> {
  enum {
    IsInteger = 0,
    IsSigned = 1,
    IsComplex = 0,
    RequireInitialization = 0,
    ReadCost = 1,
    AddCost = 3,
    MulCost = 3
  };
  static T epsilon() { return std::numeric_limits<T>::epsilon(); }
  static T dummy_precision() { return T(8.f * static_cast<float>(epsilon())); }
  static T highest() { return std::numeric_limits<T>::max(); }
  static T lowest() { return std::numeric_limits<T>::lowest(); }
  static T infinity() { return std::numeric_limits<T>::infinity(); }
  static T quiet_NaN() { return std::numeric_limits<T>::quiet_NaN(); }
  static int digits10() { return std::numeric_limits<T>::digits10; }
};
}  // namespace amp::detail

template <class T, int R, int C, int O, int MR, int MC>
struct amp::view_traits<Eigen::Matrix<T, R, C, O, MR, MC>>
    : amp::detail::eigen_view<Eigen::Matrix<T, R, C, O, MR, MC>> {};
template <class T, int R, int C, int O, int MR, int MC>
struct amp::view_traits<Eigen::Array<T, R, C, O, MR, MC>> : amp::detail::eigen_view<Eigen::Array<T, R, C, O, MR, MC>> {
};
/// Maps without strides; strided ones are not dense and do not compile.
template <class Plain, int Alignment>
struct amp::view_traits<Eigen::Map<Plain, Alignment, Eigen::Stride<0, 0>>>
    : amp::detail::eigen_view<Eigen::Map<Plain, Alignment, Eigen::Stride<0, 0>>> {};

namespace Eigen {
template <>
struct NumTraits<amp::half> : amp::detail::eigen_traits<amp::half> {};
template <>
struct NumTraits<amp::bfloat16> : amp::detail::eigen_traits<amp::bfloat16> {};
template <>
struct NumTraits<amp::e4m3> : amp::detail::eigen_traits<amp::e4m3> {};
template <>
struct NumTraits<amp::e5m2> : amp::detail::eigen_traits<amp::e5m2> {};

/// low (op) float gives float, so `w.cwiseProduct(x)` of a low matrix and a float one needs no cast.
template <amp::LowPrecision T, class Op>
struct ScalarBinaryOpTraits<T, float, Op> {
  using ReturnType = float;
};
template <amp::LowPrecision T, class Op>
struct ScalarBinaryOpTraits<float, T, Op> {
  using ReturnType = float;
};
}  // namespace Eigen
