/// Activations with their slopes, elementwise on float or vec: what epilogues and backward passes are made of.
#pragma once
#include <amp/core/config.hpp>
#include <amp/simd/math.hpp>
#include <amp/simd/vec.hpp>
#include <concepts>

namespace amp::nn {

/// y = x. Every activation has `operator()(x)`, `slope(x)` at the input x, and those that backward passes may take from
/// the output alone `slope_from_output(y)`.
struct no_activation {
  template <class V>
  AMP_HD AMP_INLINE V operator()(const V& x) const {
    return x;
  }
  template <class V>
  AMP_HD AMP_INLINE V slope(const V& /*x*/) const {
    return V(1.f);
  }
  template <class V>
  AMP_HD AMP_INLINE V slope_from_output(const V& /*y*/) const {
    return V(1.f);
  }
};

/// max(x, 0); a NaN stays one, the slope at 0 is 0.
struct relu {
  template <class V>
  AMP_HD AMP_INLINE V operator()(const V& x) const {
    return simd::select(x < V(0.f), V(0.f), x);
  }
  template <class V>
  AMP_HD AMP_INLINE V slope(const V& x) const {
    return simd::select(x > V(0.f), V(1.f), V(0.f));
  }
  template <class V>
  AMP_HD AMP_INLINE V slope_from_output(const V& y) const {
    return slope(y);
  }
};

/// 1 / (1 + e^-x)
struct sigmoid {
  template <class V>
  AMP_HD AMP_INLINE V operator()(const V& x) const {
    return simd::sigmoid(x);
  }
  template <class V>
  AMP_HD AMP_INLINE V slope(const V& x) const {
    return slope_from_output(simd::sigmoid(x));
  }
  template <class V>
  AMP_HD AMP_INLINE V slope_from_output(const V& y) const {
    return y * (V(1.f) - y);
  }
};

/// x times the probability that a standard normal variable is below x: the exact GELU.
/// source  Hendrycks & Gimpel 2016 (arXiv:1606.08415), eq. 1
struct gelu_erf {
  template <class V>
  AMP_HD AMP_INLINE V operator()(const V& x) const {
    return x * simd::normal_cdf(x);
  }
  template <class V>
  AMP_HD AMP_INLINE V slope(const V& x) const {
    V cdf, x_pdf;
    simd::normal_cdf_and_slope(x, cdf, x_pdf);
    return cdf + x_pdf;
  }
};

/// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), computed as x sigmoid(2 u), which keeps the lower tail.
/// source  Hendrycks & Gimpel 2016 (arXiv:1606.08415), eq. 2
struct gelu_tanh {
  template <class V>
  AMP_HD AMP_INLINE V operator()(const V& x) const {
    return x * simd::sigmoid(twice_inner(x));
  }
  template <class V>
  AMP_HD AMP_INLINE V slope(const V& x) const {
    const V s = simd::sigmoid(twice_inner(x));
    // s (1 - s) is 0 long before these limits; without them 0 times infinity would be NaN.
    const V inner_slope = simd::min(simd::fma(x * x, V(6.f * root * cubic), V(2.f * root)), V(1e30f));
    const V bounded = simd::copysign(simd::min(simd::abs(x), V(1e9f)), x);
    return simd::fma(s * (V(1.f) - s) * bounded, inner_slope, s);
  }

 private:
  static constexpr float root = 0.7978845608f, cubic = 0.044715f;  // sqrt(2 / pi)
  template <class V>
  AMP_HD AMP_INLINE static V twice_inner(const V& x) {
    return x * simd::fma(x * x, V(2.f * root * cubic), V(2.f * root));
  }
};

template <class A>
concept Activation = requires(const A& a, float x) {
  { a(x) } -> std::same_as<float>;
  { a.slope(x) } -> std::same_as<float>;
};
/// One whose slope follows from its output, so that the input need not be kept.
template <class A>
concept InvertibleSlope = Activation<A> && requires(const A& a, float y) {
  { a.slope_from_output(y) } -> std::same_as<float>;
};

}  // namespace amp::nn
