/// One parameter of a model as the upper rows see it: where value and gradient lie, and what they are stored in.
#pragma once
#include <amp/core/check.hpp>
#include <amp/core/dtype.hpp>
#include <amp/half_traits.hpp>
#include <amp/tensor/view.hpp>
#include <cstdint>
#include <string>
#include <utility>

namespace amp {

/// What a parameter is for: levels keep normalisation in fp32, groups exempt biases and norms from decay.
enum class role : std::uint8_t { weight, bias, norm, embedding };

/// Owns nothing: the pointers stay valid as long as the model keeps its tensors in place.
struct Param {
  std::string name;
  void* value = nullptr;
  void* grad = nullptr;  ///< null: no gradient yet
  std::int64_t size = 0;
  dtype type = dtype::fp32;
  dtype grad_type = dtype::fp32;
  amp::role role = amp::role::weight;
  bool requires_grad = true;

  [[nodiscard]] bool has_grad() const noexcept { return grad != nullptr; }
  [[nodiscard]] tensor_view value_view() const noexcept { return {value, size, type, false, name}; }
  /// A view of size 0 where the gradient is missing.
  [[nodiscard]] tensor_view grad_view() const noexcept {
    return {grad, grad == nullptr ? 0 : size, grad_type, false, name};
  }

  /// Calls `f(view<T>)` with the value's type.
  template <class F>
  decltype(auto) visit(F&& f, where at = where::here()) const {
    return amp::visit(
        type,
        [&]<class T>(std::type_identity<T>) -> decltype(auto) {
          return std::forward<F>(f)(view<T>{static_cast<T*>(value), size, name});
        },
        at);
  }
};

}  // namespace amp
