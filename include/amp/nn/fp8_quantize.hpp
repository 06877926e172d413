/// Quantisation by each recipe: which blocks, which scales, which rounding. Delayed scaling has a state of its own
/// (nn/fp8_delayed.hpp).
#pragma once
#include <algorithm>
#include <amp/apply/exec.hpp>
#include <amp/core/check.hpp>
#include <amp/fn/compute_scale.hpp>
#include <amp/half_traits.hpp>
#include <amp/nn/fp8_blocks.hpp>
#include <amp/nn/fp8_recipe.hpp>
#include <amp/tensor/matrix.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace amp::fp8 {

/// Along which direction a block of a non-square recipe lies: that of the product's sum.
enum class along : std::uint8_t { row, column };

struct quantize_options {
  along direction = along::row;
  std::uint64_t stream = 0;  ///< of random words: keeps tensors and steps apart
};

namespace detail {
/// Largest magnitude of a matrix of any stride.
template <exec::HostExecutor E>
[[nodiscard]] float matrix_amax(const E& executor, const matrix_view& x, where at) {
  expects_matrix(x, x.rows, x.columns, "the matrix to quantise", false, at);
  std::vector<tensor_view> rows;
  if (x.stride == x.columns || x.rows < 2) {
    rows.push_back({x.data, x.rows * x.columns, x.type, x.readonly, x.name});
  } else {
    for (std::int64_t r = 0; r < x.rows; ++r) {
      auto* const bytes = static_cast<unsigned char*>(x.data);
      rows.push_back(
          {bytes + static_cast<std::size_t>(r * x.stride) * size_of(x.type), x.columns, x.type, x.readonly, x.name});
    }
  }
  float largest = 0.f;
  for (const float amax : fn::amax(executor, rows, at).per_tensor) largest = std::max(largest, amax);
  return largest;
}

/// Blocks of n: square for weights where the recipe says so, else in one direction.
struct block_shape {
  std::int64_t rows, columns;
};
constexpr block_shape block_of(std::int64_t n, bool square, along direction) {
  return {square || direction == along::column ? n : 1, square || direction == along::row ? n : 1};
}
}  // namespace detail

/// The scale from the very tensor: two passes.
/// throws  amp::error for a malformed matrix
template <operand Role, class F, exec::HostExecutor E>
[[nodiscard]] auto quantize(const E& executor, const current_scaling<F>& recipe, const matrix_view& x,
                            quantize_options = {}, where at = where::here()) {
  using T = format<current_scaling<F>, Role>;
  const float amax = detail::matrix_amax(executor, x, at);
  return quantize_tensor<T>(executor, x, fn::scale_of_amax(amax, half_traits<T>::max, recipe.rule), at);
}
/// 128 x 128 blocks of weights, 128 elements in the direction of others.
/// throws  amp::error for a malformed matrix
template <operand Role, class F, exec::HostExecutor E>
[[nodiscard]] auto quantize(const E& executor, const block_scaling<F>& recipe, const matrix_view& x,
                            quantize_options options = {}, where at = where::here()) {
  using T = format<block_scaling<F>, Role>;
  const auto shape = detail::block_of(block_scaling<F>::block, Role == operand::weight, options.direction);
  return quantize_blocks<T>(executor, x, shape.rows, shape.columns, float_scale<T>{recipe.rule}, {}, at);
}
/// Blocks of 32 in the direction, each from the source itself: codes along rows and along columns are two tensors.
/// throws  amp::error for a malformed matrix
template <operand Role, class F, exec::HostExecutor E>
[[nodiscard]] auto quantize(const E& executor, const mx_scaling<F>&, const matrix_view& x,
                            quantize_options options = {}, where at = where::here()) {
  using T = format<mx_scaling<F>, Role>;
  const auto shape = detail::block_of(mx_scaling<F>::block, false, options.direction);
  return quantize_blocks<T>(executor, x, shape.rows, shape.columns, power_scale<T>{}, {}, at);
}
/// Blocks of 16 (weights: 16 x 16) in e2m1; gradients are rounded stochastically unless the recipe says otherwise.
/// throws  amp::error for a malformed matrix
template <operand Role, exec::HostExecutor E>
[[nodiscard]] auto quantize(const E& executor, const nvfp4_scaling& recipe, const matrix_view& x,
                            quantize_options options = {}, where at = where::here()) {
  const auto shape = detail::block_of(nvfp4_scaling::block, Role == operand::weight, options.direction);
  const fn::scale_pair tensor = fn::scale_of_amax(detail::matrix_amax(executor, x, at), 448.f * 6.f);
  const rounding round{Role == operand::gradient && recipe.stochastic_gradients, recipe.seed, options.stream};
  auto q = quantize_blocks<amp::e2m1>(executor, x, shape.rows, shape.columns, two_level_scale{tensor.scale}, round, at);
  q.tensor_scale = tensor.inverse;
  return q;
}

}  // namespace amp::fp8
