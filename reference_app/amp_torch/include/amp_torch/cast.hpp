/// Casts a module's weights in place (O2 and O3), and the floating tensors of a call's arguments.
#pragma once
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/rnn.h>

#include <concepts>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace amp_torch {

/// Which modules of a cast model stay as they are.
struct cast_options {
  bool keep_batchnorm_fp32 = true;
  /// A module's own wish, asked besides: true keeps its own tensors (not those of its children) in fp32.
  std::function<bool(const std::string& name, const torch::nn::Module&)> keep_fp32 = {};
};

/// True for a batch norm with affine parameters: those that keep_batchnorm_fp32 keeps.
/// source  apex convert_module: without affine parameters a batch norm is cast as any other module
[[nodiscard]] inline bool is_affine_batchnorm(const torch::nn::Module& m) {
  if (const auto* n = dynamic_cast<const torch::nn::BatchNorm2dImpl*>(&m)) return n->options.affine();
  if (const auto* n = dynamic_cast<const torch::nn::BatchNorm1dImpl*>(&m)) return n->options.affine();
  if (const auto* n = dynamic_cast<const torch::nn::BatchNorm3dImpl*>(&m)) return n->options.affine();
  return false;
}

namespace detail {
/// Changes the type of a parameter or buffer under its identity: everyone who holds the tensor sees the new type.
inline void retype(const at::Tensor& t, at::ScalarType type) {
  if (!t.defined() || !t.is_floating_point() || t.scalar_type() == type) return;
  const at::Tensor grad = t.grad();
  t.set_data(t.detach().to(type));
  if (grad.defined()) t.mutable_grad() = grad.detach().to(type);
}
inline void reflatten(torch::nn::Module& m) {  // cuDNN wants RNN weights in one block; a cast scatters them
  if (auto* lstm = dynamic_cast<torch::nn::LSTMImpl*>(&m)) lstm->flatten_parameters();
  if (auto* gru = dynamic_cast<torch::nn::GRUImpl*>(&m)) gru->flatten_parameters();
  if (auto* rnn = dynamic_cast<torch::nn::RNNImpl*>(&m)) rnn->flatten_parameters();
}
}  // namespace detail

/// Calls `fn(name, module)` for the module and all below it, parents first. The module may live on the stack.
template <class Fn>
void for_each_module(torch::nn::Module& module, const Fn& fn, const std::string& name = {}) {
  fn(name, module);
  for (const auto& child : module.named_children()) {
    if (child.value()) for_each_module(*child.value(), fn, name.empty() ? child.key() : name + '.' + child.key());
  }
}

/// Casts all floating parameters (with their gradients) and buffers to `type`, except those of modules that stay.
/// Integer buffers, such as a count of batches, keep their type. Parameters keep their identity.
inline void cast_model(torch::nn::Module& model, at::ScalarType type, const cast_options& options = {}) {
  for_each_module(model, [&](const std::string& name, torch::nn::Module& m) {
    if (options.keep_batchnorm_fp32 && is_affine_batchnorm(m)) return;
    if (options.keep_fp32 && options.keep_fp32(name, m)) return;
    for (const auto& p : m.named_parameters(/*recurse=*/false)) detail::retype(p.value(), type);
    for (const auto& b : m.named_buffers(/*recurse=*/false)) detail::retype(b.value(), type);
    detail::reflatten(m);
  });
}

/// Puts `f(tensor)` in the place of every tensor inside `x`: tensors, pairs, tuples, vectors, lists, maps and optionals
/// of them, at any depth. Everything else passes unchanged.
template <class T, class F>
[[nodiscard]] auto map_tensors(const T& x, const F& f) {
  if constexpr (std::is_same_v<T, at::Tensor>) {
    return f(x);
  } else if constexpr (requires { f.own(x); }) {
    return T(f.own(x));
  } else if constexpr (requires {
                         std::tuple_size<T>::value;
                         x.begin();
                       }) {  // std::array
    T out = x;
    for (auto& e : out) e = map_tensors(e, f);
    return out;
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    return std::apply([&](const auto&... e) { return T(map_tensors(e, f)...); }, x);
  } else if constexpr (requires {
                         typename T::mapped_type;
                         x.begin();
                       }) {
    T out = x;
    for (auto& [key, value] : out) value = map_tensors(value, f);
    return out;
  } else if constexpr (requires {
                         typename T::value_type;
                         x.has_value();
                         *x;
                       }) {
    return x.has_value() ? T(map_tensors(*x, f)) : T();
  } else if constexpr (requires(T out) {
                         typename T::allocator_type;
                         out.push_back(*x.begin());
                         requires !std::is_arithmetic_v<typename T::value_type>;
                       }) {
    T out;
    for (const auto& e : x) out.push_back(map_tensors(e, f));
    return out;
  } else {
    return x;
  }
}

namespace detail {
struct CastTo {
  at::ScalarType type;
  [[nodiscard]] at::Tensor operator()(const at::Tensor& t) const {
    return t.defined() && t.is_floating_point() && t.scalar_type() != type ? t.to(type) : t;
  }
  /// A user's batch type converts itself.
  template <class T>
  [[nodiscard]] auto own(const T& x) const requires requires {
    { x.to(type) } -> std::convertible_to<T>;
  }
  { return x.to(type); }
};
}  // namespace detail

/// Converts every floating tensor inside `x` to `type`, as deep as map_tensors goes; what has a member
/// `to(at::ScalarType)` converts itself; integers, texts and numbers pass unchanged.
template <class T>
[[nodiscard]] auto cast_floating(const T& x, at::ScalarType type) {
  return map_tensors(x, detail::CastTo{type});
}

}  // namespace amp_torch
