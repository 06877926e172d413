/// The kernel targets, the choice among them, and the floating-point state that kernels run in.
#pragma once
#include <amp/core/check.hpp>
#include <amp/core/config.hpp>
#include <amp/simd/vec.hpp>
#include <cstdint>
#include <string>
#include <string_view>

namespace amp::simd {

/// Which instructions a kernel uses. All give the same bits. `scalar` computes one float at a time (the reference),
/// `base` is what every processor of the architecture has.
enum class target : std::uint8_t { best, scalar, base, avx2, avx512 };

[[nodiscard]] constexpr std::string_view name(target t) noexcept {
  switch (t) {
    case target::best:
      return "best";
    case target::scalar:
      return "scalar";
    case target::base:
      return "base";
    case target::avx2:
      return "avx2";
    case target::avx512:
      return "avx512";
  }
  return "unknown";
}

/// Whether this processor runs it.
[[nodiscard]] inline bool supported(target t) noexcept {
  if (t < target::avx2) return true;
#if AMP_X86
  if (t == target::avx2) return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  if (t == target::avx512) {
    return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
           __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  }
#endif
  return false;
}

/// The widest that this processor runs.
[[nodiscard]] inline target best_target() noexcept {
  if (supported(target::avx512)) return target::avx512;
  return supported(target::avx2) ? target::avx2 : target::base;
}

/// `best` becomes the widest one.
/// throws  amp::error for a target that this processor lacks
[[nodiscard]] inline target resolve(target t, where at = where::here()) {
  if (t == target::best) return best_target();
  expects(
      supported(t), [&] { return "this processor has no " + std::string(name(t)) + "; use target::best"; }, at);
  return t;
}

inline namespace AMP_ISA {
/// The kernel wrappers: the only functions with a target attribute. `Body::run<V>(args...)` is always_inline code
/// without one; only pointers, references and numbers may be arguments, for a vector that crosses a call between code
/// of different targets gives silently wrong numbers.
template <class Body, class... Args>
AMP_NOINLINE void k_scalar(Args... args) {
  Body::template run<float>(args...);
}
template <class Body, class... Args>
AMP_NOINLINE void k_base(Args... args) {
  Body::template run<vec<float, 4>>(args...);
}
template <class Body, class... Args>
AMP_TARGET_AVX2 AMP_NOINLINE void k_avx2(Args... args) {
  Body::template run<vec<float, 8>>(args...);
}
template <class Body, class... Args>
AMP_TARGET_AVX512 AMP_NOINLINE void k_avx512(Args... args) {
  Body::template run<vec<float, 16>>(args...);
}

/// The wrapper of a resolved target: `kernel<Body, const Job&>(t)(job)`.
template <class Body, class... Args>
[[nodiscard]] auto kernel(target t) noexcept -> void (*)(Args...) {
  switch (t) {
    case target::scalar:
      return &k_scalar<Body, Args...>;
    case target::avx2:
      return &k_avx2<Body, Args...>;
    case target::avx512:
      return &k_avx512<Body, Args...>;
    case target::best:
    case target::base:
      break;
  }
  return &k_base<Body, Args...>;
}

/// Calls the wrapper of the same target out of line, from inside a kernel.
template <class V, class Body, class... Args>
AMP_INLINE void call_kernel(Args... args) {
  if constexpr (lanes<V> == 1) {
    k_scalar<Body, Args...>(args...);
  } else if constexpr (lanes<V> == 4) {
    k_base<Body, Args...>(args...);
  } else if constexpr (lanes<V> == 8) {
    k_avx2<Body, Args...>(args...);
  } else {
    k_avx512<Body, Args...>(args...);
  }
}
}  // namespace AMP_ISA

/// Flush-to-zero and denormals-are-zero while alive: moments that decay into subnormals would run 2-3 times slower.
/// Part of the definition of every kernel's result, so every executor sets it, whatever the calling thread had.
class flush_scope {
 public:
#if AMP_X86
  flush_scope() noexcept : saved_(__builtin_ia32_stmxcsr()) { __builtin_ia32_ldmxcsr(saved_ | flush_bits); }
  ~flush_scope() { __builtin_ia32_ldmxcsr(saved_); }
#else
  flush_scope() noexcept {}
  ~flush_scope() {}
#endif
  flush_scope(const flush_scope&) = delete;  // the state belongs to the scope that changed it
  flush_scope& operator=(const flush_scope&) = delete;

 private:
#if AMP_X86
  static constexpr unsigned flush_bits = 0x8040;  // FTZ, DAZ
  unsigned saved_;
#endif
};

}  // namespace amp::simd
