/// O1 without a tensor library: an operation's casts resolved at compile time.
#pragma once
#include <amp/cast/op_lists.hpp>
#include <amp/core/dtype.hpp>
#include <amp/half_traits.hpp>
#include <array>
#include <concepts>
#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace amp {

namespace cast {

/// How arguments of a type are cast; a type without it passes unchanged, as numbers do. Yours needs a specialisation,
/// or members `storage_type` and `cast<U>()`:
///   storage   the Storage type of its elements
///   to<U>(x)  the same tensor in another one
template <class X>
struct cast_traits {};
template <Storage T>
struct cast_traits<std::vector<T>> {
  using storage = T;
  template <Storage U>
  [[nodiscard]] static std::vector<U> to(const std::vector<T>& x) {
    std::vector<U> out;
    out.reserve(x.size());
    for (const T& e : x) out.push_back(U(static_cast<float>(e)));
    return out;
  }
};
template <class X>
requires Storage<typename X::storage_type> && requires(const X& x) { x.template cast<float>(); }
struct cast_traits<X> {
  using storage = typename X::storage_type;
  template <Storage U>
  [[nodiscard]] static auto to(const X& x) {
    return x.template cast<U>();
  }
};

/// An argument that is cast: floating, in a format of the toolkit (double is none).
template <class X>
concept Castable = requires {
  typename cast_traits<std::remove_cvref_t<X>>::storage;
};

/// The name of an operation as a template argument.
template <std::size_t N>
struct op_name {
  char text[N];
  constexpr op_name(const char (&literal)[N]) {  // NOLINT(google-explicit-constructor): a literal is a name
    for (std::size_t i = 0; i < N; ++i) text[i] = literal[i];
  }
  [[nodiscard]] constexpr std::string_view view() const noexcept { return {text, N - 1}; }
};

/// The policy of a level: its low type and the default lists. Derive to change them:
///   struct mine : per_op<dtype::bf16> {
///     static constexpr rule rule_of(std::string_view op) { return op == "blur" ? rule::fp32 : default_rule(op); }
///   };
/// `strict`: an operation that no list names does not compile. `allow_banned`: banned ones run in fp32.
template <dtype Low>
struct per_op {
  static constexpr dtype low = Low;
  static constexpr bool strict = false, allow_banned = false;
  [[nodiscard]] static constexpr rule rule_of(std::string_view op) noexcept { return default_rule(op); }
  [[nodiscard]] static constexpr bool knows(std::string_view op) noexcept { return listed(op); }
};

template <class P>
concept CastPolicy = requires(std::string_view op) {
  { P::low } -> std::convertible_to<dtype>;
  { P::rule_of(op) } -> std::same_as<rule>;
};

namespace detail {
template <class X>
constexpr bool differs(dtype to) noexcept {
  if constexpr (Castable<X>) {
    return half_traits<typename cast_traits<std::remove_cvref_t<X>>::storage>::id != to;
  } else {
    return false;
  }
}
/// The decision for one call, by the types of its arguments.
template <CastPolicy P, op_name Name, class... Args>
consteval decision decided() {
  std::array<dtype, sizeof...(Args) + 1> types{};
  std::size_t count = 0;
  const auto add = [&]<class X>(std::type_identity<X>) {
    if constexpr (Castable<X>) types[count++] = half_traits<typename cast_traits<std::remove_cvref_t<X>>::storage>::id;
  };
  (add(std::type_identity<Args>{}), ...);
  return decide(P::rule_of(base_name(Name.view())), in_place(Name.view()), P::low, std::span(types).first(count),
                P::allow_banned);
}
/// The argument in the storage of `To`: itself, without a copy, if it has that already.
template <dtype To, class X>
constexpr decltype(auto) as(X&& x) {
  if constexpr (differs<X>(To)) {
    using U = typename std::conditional_t<
        To == dtype::fp16, std::type_identity<half>,
        std::conditional_t<To == dtype::bf16, std::type_identity<bfloat16>, std::type_identity<float>>>::type;
    return cast_traits<std::remove_cvref_t<X>>::template to<U>(x);
  } else {
    return std::forward<X>(x);
  }
}
}  // namespace detail

/// The number of arguments that a call casts; 0 where the types agree already.
template <CastPolicy P, op_name Name, class... Args>
inline constexpr int casts_of = [] {
  constexpr decision d = detail::decided<P, Name, Args...>();
  return d.what == decision::convert ? (0 + ... + (detail::differs<Args>(d.to) ? 1 : 0)) : 0;
}();

template <CastPolicy P, op_name Name>
struct op_call {
  template <class F, class... Args>
  constexpr decltype(auto) operator()(F&& f, Args&&... args) const {
    constexpr decision d = detail::decided<P, Name, Args...>();
    static_assert(!P::strict || P::knows(base_name(Name.view())),
                  "amp: this operation stands in no list of the cast policy; add it as low, fp32, promote or free");
    static_assert(!(d.what == decision::refuse && d.why.starts_with("this operation is banned")),
                  "amp: this operation is banned for low inputs; use a form that is safe in low precision "
                  "(binary_cross_entropy_with_logits), or allow_banned in the cast policy");
    static_assert(!(d.what == decision::refuse && d.why == mixed_low),
                  "amp: fp16 and bf16 inputs meet in one operation, which have no common low type; cast one of them "
                  "first");
    static_assert(!(d.what == decision::refuse && d.why == fp32_in_place),
                  "amp: the in-place form of an fp32 operation cannot store its result in a low tensor; use the form "
                  "that returns a new one");
    if constexpr (d.what == decision::convert) {
      return std::forward<F>(f)(detail::as<d.to>(std::forward<Args>(args))...);
    } else {
      return std::forward<F>(f)(std::forward<Args>(args)...);
    }
  }
};

}  // namespace cast

/// Calls `f(args...)` with the casts that the policy has for the operation of that name, resolved at compile time: no
/// dispatch, no cache, and nothing at all where the types agree. A combination that is banned or has no meaning does
/// not compile. Usage: `const auto y = amp::op<amp::cast::per_op<amp::dtype::bf16>, "matmul">(product, x, w);`
template <cast::CastPolicy Policy, cast::op_name Name>
inline constexpr cast::op_call<Policy, Name> op{};

}  // namespace amp
