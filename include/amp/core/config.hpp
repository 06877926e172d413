/// Version and the project's macros; the only header that defines any.
#pragma once

#define AMP_VERSION_MAJOR 0
#define AMP_VERSION_MINOR 1
#define AMP_VERSION_PATCH 0

/// Callable on host and device.
#if defined(__CUDACC__)
#define AMP_HD __host__ __device__
#else
#define AMP_HD
#endif

/// Must disappear into its caller: vector code that did not would cross a call between code of different targets.
#define AMP_INLINE inline __attribute__((always_inline))
/// The same for a lambda: `auto f = [&](auto x) AMP_LAMBDA { ... };`
#define AMP_LAMBDA __attribute__((always_inline))
#define AMP_NOINLINE __attribute__((noinline))

/// x86-64 with GCC or clang: kernels are compiled for three targets and chosen at run time (simd/target.hpp).
#if defined(__x86_64__) && defined(__GNUC__)
#define AMP_X86 1
#else
#define AMP_X86 0
#endif

/// What a kernel wrapper may use; everything below the wrappers is free of target attributes (simd/target.hpp).
#if AMP_X86
#define AMP_TARGET_AVX2 __attribute__((target("avx2,fma")))
#if defined(__clang__)
#define AMP_TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#else
#define AMP_TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")))
#endif
#else
#define AMP_TARGET_AVX2
#define AMP_TARGET_AVX512
#endif

/// Name of the inline namespace around kernels: units built with different -m flags must not share a kernel, or the one
/// that the linker keeps may use instructions that the other's machine lacks.
#if defined(__AVX512F__)
#define AMP_ISA built_for_avx512
#elif defined(__AVX2__)
#define AMP_ISA built_for_avx2
#else
#define AMP_ISA built_for_base
#endif
