/// CUDA's low types in our lists, in place: __half, __nv_bfloat16, __nv_fp8_e4m3, __nv_fp8_e5m2; its scales and fp4 by
/// bit_view. Declares them alone, so it needs no toolkit; whoever uses the types includes cuda_fp16.h and so on. Works
/// in plain C++ files.
#pragma once
#include <amp/half_traits.hpp>

struct __half;
struct __nv_bfloat16;
struct __nv_fp8_e4m3;
struct __nv_fp8_e5m2;
struct __nv_fp8_e8m0;
struct __nv_fp4_e2m1;

template <>
struct amp::format_of<__half> {
  using type = amp::half;
};
template <>
struct amp::format_of<__nv_bfloat16> {
  using type = amp::bfloat16;
};
template <>
struct amp::format_of<__nv_fp8_e4m3> {
  using type = amp::e4m3;
};
template <>
struct amp::format_of<__nv_fp8_e5m2> {
  using type = amp::e5m2;
};
template <>
struct amp::format_of<__nv_fp8_e8m0> {
  using type = amp::e8m0;
};
template <>
struct amp::format_of<__nv_fp4_e2m1> {
  using type = amp::e2m1;
};
