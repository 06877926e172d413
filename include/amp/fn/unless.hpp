/// Makes any functor one of the "noop" kind: a flag in memory switches it off.
#pragma once
#include <amp/apply/engine.hpp>
#include <amp/apply/plan.hpp>
#include <amp/core/config.hpp>
#include <cstdint>
#include <type_traits>

namespace amp::fn {

/// `f`, unless the flag is set when the pass runs; then nothing is read or written.
template <class F>
struct Unless {
  const std::int32_t* flag;
  F f;

  [[nodiscard]] AMP_HD AMP_INLINE bool skips() const noexcept { return *flag != 0 || apply::skipped(f); }
  [[nodiscard]] AMP_HD AMP_INLINE auto at(const apply::piece& p) const noexcept {
    const auto chosen = apply::functor_at(f, p);
    return Unless<std::remove_const_t<decltype(chosen)>>{flag, chosen};
  }

  template <class... X>
  AMP_HD AMP_INLINE void operator()(X&... x) const {
    f(x...);
  }
};

/// Usage: `multi_tensor_apply(exec, fn::unless(&report.flag, Sgd::functor(group)), ...)`
template <class F>
[[nodiscard]] constexpr Unless<F> unless(const std::int32_t* flag, const F& f) noexcept {
  return {flag, f};
}

}  // namespace amp::fn
