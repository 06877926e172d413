/// Two functors in one pass: joined at compile time, so that each element is loaded and stored once.
#pragma once
#include <amp/apply/engine.hpp>
#include <amp/apply/plan.hpp>
#include <amp/core/config.hpp>
#include <cstddef>
#include <utility>

namespace amp::fn {

/// Which lanes of the call a functor takes, in its own order: `on<1, 0>(Copy{})` writes lane 1 from lane 0.
template <class F, std::size_t... Lanes>
struct On {
  F f;

  [[nodiscard]] AMP_HD AMP_INLINE auto at(const apply::piece& p) const noexcept {
    const auto chosen = apply::functor_at(f, p);
    return On<std::remove_const_t<decltype(chosen)>, Lanes...>{chosen};
  }
  [[nodiscard]] AMP_HD AMP_INLINE bool skips() const noexcept { return apply::skipped(f); }

  template <class... X>
  AMP_HD AMP_INLINE void operator()(X&... x) const {
    f(pick<Lanes>(x...)...);
  }

 private:
  template <std::size_t I, class First, class... Rest>
  AMP_HD AMP_INLINE static auto& pick(First& first, Rest&... rest) {
    if constexpr (I == 0) {
      return first;
    } else {
      return pick<I - 1>(rest...);
    }
  }
};

/// Runs `first`, then `second` on what `first` left in the lanes, which are still in registers.
template <class First, class Second>
struct Fused {
  First first;
  Second second;

  [[nodiscard]] AMP_HD AMP_INLINE auto at(const apply::piece& p) const noexcept {
    const auto a = apply::functor_at(first, p);
    const auto b = apply::functor_at(second, p);
    return Fused<std::remove_const_t<decltype(a)>, std::remove_const_t<decltype(b)>>{a, b};
  }

  template <class... X>
  AMP_HD AMP_INLINE void operator()(X&... x) const {
    if (!apply::skipped(first)) first(x...);
    if (!apply::skipped(second)) second(x...);
  }
};

/// Lets a functor take some of the lanes of a fused call.
template <std::size_t... Lanes, class F>
[[nodiscard]] constexpr On<F, Lanes...> on(const F& f) noexcept {
  return {f};
}

/// One functor that does `first`, then `second`. Both take all lanes of the call; `on<...>` chooses some. The same bits
/// as two calls wherever the lanes between them are fp32; a low lane between them keeps fp32 precision, and is rounded
/// once.
/// Usage: `multi_tensor_apply(exec, fuse(on<0, 1>(Scale{a}), on<2, 0>(Copy{})), lane::out(y), lane::in(x),
/// lane::out(z))`
template <class First, class Second>
[[nodiscard]] constexpr Fused<First, Second> fuse(const First& first, const Second& second) noexcept {
  return {first, second};
}
template <class First, class Second, class Third, class... More>
[[nodiscard]] constexpr auto fuse(const First& first, const Second& second, const Third& third,
                                  const More&... more) noexcept {
  return fuse(Fused<First, Second>{first, second}, third, more...);
}

}  // namespace amp::fn
