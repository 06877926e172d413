/// Functions of the user's own inside of a region of O1: forced to the low type, to fp32, or to the widest input.
#pragma once
#include <ATen/core/Tensor.h>

#include <amp/cast/op_lists.hpp>
#include <amp/core/check.hpp>
#include <amp_torch/cast.hpp>
#include <amp_torch/dtype.hpp>
#include <amp_torch/op_cast.hpp>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace amp_torch {

namespace detail {
/// The arguments of a call under a rule, cast as amp::cast::decide says; nothing outside of a region.
template <class F, class... Args>
auto call_with_rule(amp::cast::rule rule, const F& f, amp::where at, const Args&... args) {
  const auto low = OpCast::type();
  if (!low) return std::invoke(f, args...);
  const auto device = OpCast::device();
  const auto eligible = [&](const at::Tensor& t) {
    return t.defined() && to_amp(t.scalar_type()).has_value() && t.device().type() == device;
  };
  std::vector<amp::dtype> types;
  const auto collect = [&](const at::Tensor& t) {
    if (eligible(t)) types.push_back(*to_amp(t.scalar_type()));
    return t;
  };
  (static_cast<void>(map_tensors(args, collect)), ...);
  const auto d = amp::cast::decide(rule, false, *to_amp(*low), types);
  amp::expects(d.what != amp::cast::decision::refuse, d.why, at);
  if (d.what == amp::cast::decision::keep) return std::invoke(f, args...);
  const auto convert = [&](const at::Tensor& t) {
    return eligible(t) && t.scalar_type() != to_torch(d.to) ? t.to(to_torch(d.to)) : t;
  };
  return std::invoke(f, map_tensors(args, convert)...);
}
template <class F>
[[nodiscard]] auto with_rule(amp::cast::rule rule, F f, amp::where at) {
  return [rule, f = std::move(f), at](const auto&... args) { return call_with_rule(rule, f, at, args...); };
}
}  // namespace detail

/// `f` with its floating arguments in the region's low type: `const auto blur = amp_torch::low_function(my_blur);`
/// Tensors on another device than the region's pass unchanged, as doubles and integers do. Outside of a region, and in
/// a disabled one, it is `f`. Operators registered with LibTorch's dispatcher need no wrapper: name them in OpLists
/// ("my_ops::blur").
template <class F>
[[nodiscard]] auto low_function(F f, amp::where at = amp::where::here()) {
  return detail::with_rule(amp::cast::rule::low, std::move(f), at);
}
/// `f` with its floating arguments in fp32.
template <class F>
[[nodiscard]] auto fp32_function(F f, amp::where at = amp::where::here()) {
  return detail::with_rule(amp::cast::rule::fp32, std::move(f), at);
}
/// `f` with its floating arguments in the widest type among them.
/// throws  amp::error, when called, for fp16 and bf16 arguments in one call
template <class F>
[[nodiscard]] auto promote_function(F f, amp::where at = amp::where::here()) {
  return detail::with_rule(amp::cast::rule::promote, std::move(f), at);
}

}  // namespace amp_torch
