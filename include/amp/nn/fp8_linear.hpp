/// A linear layer whose three products have quantised operands: the CPU's reference of fp8 and fp4 training, for every
/// recipe, with no fp8 hardware.
#pragma once
#include <amp/apply/exec.hpp>
#include <amp/core/check.hpp>
#include <amp/half_traits.hpp>
#include <amp/nn/fp8_delayed.hpp>
#include <amp/nn/fp8_quantize.hpp>
#include <amp/nn/fp8_recipe.hpp>
#include <amp/nn/gemm.hpp>
#include <amp/nn/hadamard.hpp>
#include <amp/nn/linear.hpp>
#include <amp/tensor/matrix.hpp>
#include <amp/tensor/view.hpp>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace amp::fp8 {

template <class R>
inline constexpr bool is_delayed = false;
template <class F>
inline constexpr bool is_delayed<delayed_scaling<F>> = true;
/// Recipes with one scale per tensor: their codes are the product's operands, and serve it along rows and columns.
template <class R>
inline constexpr bool is_per_tensor = is_delayed<R>;
template <class F>
inline constexpr bool is_per_tensor<current_scaling<F>> = true;

/// Where a call stands in training.
struct pass {
  bool first_microbatch = true;  ///< false: the weight as it was quantised in the first one
  std::uint64_t step = 0;        ///< keeps the random words of steps apart
};

/// A quantised operand as the product reads it: codes with one scale, or, where blocks have scales, their values.
class Factor {
 public:
  Factor() = default;
  template <class T, class Scale>
  explicit Factor(const Quantized<T, Scale>& q) : rows_(q.rows), columns_(q.columns) {
    if constexpr (std::is_same_v<Scale, float> && Storage<T>) {
      if (q.scales.size() == 1) {
        scale_ = q.scales[0];
        type_ = half_traits<T>::id;
        const auto* const bytes = reinterpret_cast<const std::uint8_t*>(q.codes.data());
        codes_.assign(bytes, bytes + q.codes.size());
        return;
      }
    }
    floats_ = dequantize(q);
  }
  [[nodiscard]] bool fits(const matrix_view& m) const noexcept { return rows_ == m.rows && columns_ == m.columns; }
  [[nodiscard]] nn::operand plain() const noexcept { return {view(), false, scale_}; }
  [[nodiscard]] nn::operand turned() const noexcept { return {view(), true, scale_}; }

 private:
  [[nodiscard]] matrix_view view() const noexcept {
    const void* const data = type_ == dtype::fp32 ? static_cast<const void*>(floats_.data()) : codes_.data();
    return {const_cast<void*>(data), rows_, columns_, columns_, type_, true, {}};
  }
  std::vector<float> floats_;
  std::vector<std::uint8_t> codes_;
  std::int64_t rows_ = 0, columns_ = 0;
  dtype type_ = dtype::fp32;
  float scale_ = 1.f;
};

/// y = x w^T + b with x and w quantised, dx = dy w and dw = dy^T x with dy quantised besides. Sums in fp32.
template <Recipe R>
class Linear {
 public:
  /// `stream` keeps the random words of layers apart.
  explicit Linear(R recipe = {}, std::uint32_t stream = 0, where at = where::here())
      : recipe_(recipe), stream_(stream) {
    if constexpr (is_delayed<R>) {
      scales_.reserve(3);
      scales_.emplace_back(recipe, half_traits<format<R, operand::activation>>::max, at);
      scales_.emplace_back(recipe, half_traits<format<R, operand::weight>>::max, at);
      scales_.emplace_back(recipe, half_traits<format<R, operand::gradient>>::max, at);
    }
  }

  /// shape   x [rows, in], w [out, in], b [out] or absent, y [rows, out]; any formats
  /// throws  amp::error for shapes that do not fit
  template <exec::HostExecutor E>
  void forward(const E& executor, const matrix_view& y, const matrix_view& x, const matrix_view& w,
               const tensor_view& b = {}, pass at_pass = {}, where at = where::here()) {
    nn::expects_vector(b, w.rows, "the bias", false, at);
    const Factor low_x = factor<operand::activation>(executor, x, along::row, at_pass, at);
    const Factor& low_w = weight(executor, w, along::row, at_pass, at);
    const nn::Floats shift(b, w.rows, 0.f);
    nn::gemm(executor, y, low_x.plain(), low_w.turned(), nn::chain(nn::bias{shift.data()}), nn::blocked{}, {}, at);
  }

  /// What `grads` asks for, from the dy of the last forward's y.
  /// throws  amp::error for shapes that do not fit
  template <exec::HostExecutor E>
  void backward(const E& executor, const nn::linear_gradients& grads, const matrix_view& dy, const matrix_view& x,
                const matrix_view& w, pass at_pass = {}, where at = where::here()) {
    nn::linear_backward(executor, {.db = grads.db}, dy, x, w, nn::blocked{}, {}, at);
    Factor low_dy;
    if (grads.dx.data != nullptr) {
      low_dy = factor<operand::gradient>(executor, dy, along::row, at_pass, at);
      const Factor& low_w = weight(executor, w, along::column, at_pass, at);
      nn::gemm(executor, grads.dx, low_dy.plain(), low_w.plain(), nn::epilogue<>{}, nn::blocked{}, {}, at);
    }
    if (grads.dw.data != nullptr) {
      if (!is_per_tensor<R> || grads.dx.data == nullptr)
        low_dy = factor<operand::gradient>(executor, dy, along::column, at_pass, at);
      const Factor low_x = factor<operand::activation>(executor, x, along::column, at_pass, at);
      const nn::residual before{grads.accumulate ? grads.dw : matrix_view{}};
      nn::gemm(executor, grads.dw, low_dy.turned(), low_x.plain(), nn::chain(before), nn::blocked{}, {}, at);
    }
  }

  /// Ends a step of delayed scaling; `reduce(span<float>)` may combine the amax of ranks.
  template <class Reduce>
  void update(Reduce&& reduce) {
    std::vector<DelayedScale*> all;
    for (auto& scale : scales_) all.push_back(&scale);
    update_scales(all, reduce);
  }
  void update() {
    update([](std::span<float>) {});
  }

  /// The scales of activation, weight and gradient under delayed scaling; else none.
  [[nodiscard]] std::span<DelayedScale> scales() noexcept { return scales_; }
  /// An operand since construction held an infinity or a NaN.
  [[nodiscard]] bool met_nonfinite() const noexcept { return nonfinite_; }

 private:
  /// The quantised operand. An optional rotation goes before, along the rows that the weights' gradient sums over.
  template <operand Role, exec::HostExecutor E>
  Factor factor(const E& executor, const matrix_view& x, along direction, pass p, where at) {
    const auto quantised = [&](const matrix_view& from) {
      if constexpr (is_delayed<R>) {
        return quantize<format<R, Role>>(executor, scales_[static_cast<std::size_t>(Role)], from, at);
      } else {
        const auto tensor = static_cast<std::uint64_t>(Role) * 2 + static_cast<std::uint64_t>(direction);
        return quantize<Role>(executor, recipe_, from,
                              {direction, (p.step << 32) | (std::uint64_t{stream_} * 8 + tensor)}, at);
      }
    };
    if constexpr (requires { recipe_.hadamard; }) {
      if (recipe_.hadamard && direction == along::column && Role != operand::weight) {
        auto turned = to_floats(x);
        nn::rotate_rows(turned.data(), x.rows, x.columns, 0xa5c3);
        return note(quantised(as_matrix(turned.data(), x.rows, x.columns)));
      }
    }
    return note(quantised(x));
  }
  template <class Q>
  Factor note(const Q& q) {
    nonfinite_ = nonfinite_ || !q.finite;
    return Factor(q);
  }
  static std::vector<float> to_floats(const matrix_view& x) {
    std::vector<float> all(static_cast<std::size_t>(x.rows * x.columns));
    for (std::int64_t r = 0; r < x.rows; ++r) {
      for (std::int64_t c = 0; c < x.columns; ++c) all[static_cast<std::size_t>(r * x.columns + c)] = element(x, r, c);
    }
    return all;
  }
  static float element(const matrix_view& x, std::int64_t r, std::int64_t c) {
    return visit(x.type, [&]<class T>(std::type_identity<T>) -> float {
      return static_cast<const T*>(x.data)[r * x.stride + c];
    });
  }

  /// The weight, kept for the microbatches that follow the first.
  template <exec::HostExecutor E>
  const Factor& weight(const E& executor, const matrix_view& w, along direction, pass p, where at) {
    Factor& kept = weights_[is_per_tensor<R> ? 0 : static_cast<std::size_t>(direction)];
    if (p.first_microbatch || !kept.fits(w)) kept = factor<operand::weight>(executor, w, direction, p, at);
    return kept;
  }

  R recipe_;
  std::uint32_t stream_;
  std::vector<DelayedScale> scales_;
  std::array<Factor, 2> weights_;
  bool nonfinite_ = false;
};

}  // namespace amp::fp8
