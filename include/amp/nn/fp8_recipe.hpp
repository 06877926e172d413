/// The fp8 and fp4 recipes as types: which format each operand of a GEMM gets, and how its scale is found.
#pragma once
#include <amp/core/fp8_recipe.hpp>
#include <amp/fn/compute_scale.hpp>
#include <amp/formats/fp4.hpp>
#include <amp/formats/fp8.hpp>
#include <concepts>
#include <cstdint>
#include <type_traits>

namespace amp::fp8 {

/// What a tensor is in training. Gradients get the backward format, weights their own blocks.
enum class operand : std::uint8_t { activation, weight, gradient };

/// Formats of the forward and of the backward pass.
template <class Forward, class Backward>
struct formats {
  static_assert(
      !std::same_as<Forward, amp::e5m2>,
      "amp: e5m2 in the forward pass is refused, two mantissa bits are too few for activations and weights; use "
      "fp8::hybrid_formats");
  using forward = Forward;
  using backward = Backward;
};
using e4m3_formats = formats<amp::e4m3, amp::e4m3>;
using hybrid_formats = formats<amp::e4m3, amp::e5m2>;
using e2m1_formats = formats<amp::e2m1, amp::e2m1>;

/// Which amax of the history makes the scale.
enum class amax_choice : std::uint8_t { largest, most_recent };

/// One scale per tensor, from the largest magnitudes of earlier steps (nn/fp8_delayed.hpp).
/// source  Micikevicius et al. 2022 (arXiv:2209.05433); Transformer Engine, DelayedScaling
template <class Formats = hybrid_formats>
struct delayed_scaling {
  using formats = Formats;
  int history = 1024;  ///< Transformer Engine amax_history_len
  amax_choice choose = amax_choice::largest;
  int margin = 0;  ///< the scale is 2^margin smaller than the amax allows
};

/// One scale per tensor, from its own largest magnitude: two passes.
template <class Formats = hybrid_formats>
struct current_scaling {
  using formats = Formats;
  fn::scale_rule rule = {};
};

/// An fp32 scale per 128 x 128 block of a weight and per 128 elements of a row of others.
/// source  DeepSeek-V3 technical report (arXiv:2412.19437), section 3.3
template <class Formats = e4m3_formats>
struct block_scaling {
  using formats = Formats;
  static constexpr std::int64_t block = 128;
  fn::scale_rule rule = {.power_of_two = true};
};

/// An e8m0 scale per 32 elements along the summed dimension.
/// source  OCP Microscaling Formats (MX) specification 1.0
template <class Formats = e4m3_formats>
struct mx_scaling {
  using formats = Formats;
  static constexpr std::int64_t block = 32;
};

/// An e4m3 scale per 16 elements (weights: 16 x 16) and one fp32 scale per tensor.
/// source  NVIDIA 2025, "Pretraining LLMs with NVFP4" (arXiv:2509.25149)
struct nvfp4_scaling {
  using formats = e2m1_formats;
  static constexpr std::int64_t block = 16;
  bool stochastic_gradients = true;
  bool hadamard = false;   ///< rotate 16 elements of both operands of the weights' gradient before rounding
  std::uint64_t seed = 0;  ///< of the stochastic rounding
};

template <class R>
concept Recipe = std::is_trivially_copyable_v<R> && requires {
  typename R::formats::forward;
  typename R::formats::backward;
};

/// The format of an operand.
template <Recipe R, operand Role>
using format =
    std::conditional_t<Role == operand::gradient, typename R::formats::backward, typename R::formats::forward>;

/// No quantisation: what a level without a recipe has.
struct no_recipe {};

namespace detail {
template <recipe R>
struct type_of : std::type_identity<no_recipe> {};
template <>
struct type_of<recipe::hybrid> : std::type_identity<delayed_scaling<hybrid_formats>> {};
template <>
struct type_of<recipe::e4m3> : std::type_identity<delayed_scaling<e4m3_formats>> {};
template <>
struct type_of<recipe::current> : std::type_identity<current_scaling<hybrid_formats>> {};
template <>
struct type_of<recipe::block> : std::type_identity<block_scaling<e4m3_formats>> {};
template <>
struct type_of<recipe::mxfp8> : std::type_identity<mx_scaling<e4m3_formats>> {};
template <>
struct type_of<recipe::nvfp4> : std::type_identity<nvfp4_scaling> {};
}  // namespace detail

/// The type of a recipe's name: `fp8::recipe_type<L.gemm>` of a level L.
template <recipe R>
using recipe_type = typename detail::type_of<R>::type;

}  // namespace amp::fp8
