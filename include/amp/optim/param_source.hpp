/// Where an optimizer gets its parameters from, and how it clears their gradients.
#pragma once
#include <amp/core/check.hpp>
#include <amp/half_traits.hpp>
#include <amp/tensor/param.hpp>
#include <amp/tensor/view.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace amp {

/// A parameter of anything that has a view (vectors, spans, Eigen matrices): `make_param("weight", w, grad)`.
/// throws  amp::error if value and gradient differ in size
template <class Value, class Grad>
[[nodiscard]] Param make_param(std::string name, Value& value, Grad& grad, role what = role::weight,
                               where at = where::here()) {
  const tensor_view v = as_view(value), g = as_view(grad);
  expects(
      v.size == g.size,
      [&] {
        return "parameter " + name + " has " + std::to_string(v.size) + " elements, its gradient " +
               std::to_string(g.size);
      },
      at);
  return {.name = std::move(name),
          .value = v.data,
          .grad = g.data,
          .size = v.size,
          .type = v.type,
          .grad_type = g.type,
          .role = what};
}

/// `fill` writes zeros; `release` gives the gradient back to the tensor library, whose next backward then writes
/// afresh.
enum class zeroing : std::uint8_t { fill, release };

/// A list of parameters whose gradients may move: tensor libraries allocate them anew, so the list is asked for again
/// before every pass. Count, order, names, values and sizes never change; `grad` and `grad_type` may.
class ParamSource {
 public:
  virtual ~ParamSource() = default;
  /// All parameters with their present gradients; the span is valid until the next call.
  [[nodiscard]] virtual std::span<const Param> refresh() = 0;
  /// Clears the gradient of one parameter. A source that cannot release one fills it with zeros.
  virtual void zero_grad(std::size_t index, zeroing how) = 0;
};

/// Fills a gradient with zeros, whatever its format (all of ours have +0 as zero bits).
inline void fill_zero(const Param& p) noexcept {
  if (p.grad != nullptr && p.size > 0) std::memset(p.grad, 0, static_cast<std::size_t>(p.size) * size_of(p.grad_type));
}

/// Parameters whose gradients stay in place: plain vectors, Eigen matrices.
class FixedParams final : public ParamSource {
 public:
  explicit FixedParams(std::vector<Param> params) : params_(std::move(params)) {}
  [[nodiscard]] std::span<const Param> refresh() override { return params_; }
  void zero_grad(std::size_t index, zeroing) override { fill_zero(params_[index]); }

 private:
  std::vector<Param> params_;
};

}  // namespace amp
