/// CUDA's low types in our lists, in place: __half, __nv_bfloat16, __nv_fp8_e4m3, __nv_fp8_e5m2; its scales and fp4 by
/// bit_view. Declares them alone, so it needs no toolkit; whoever uses the types includes cuda_fp16.h and so on. Works
/// in plain C++ files.
#pragma once
#include <amp/half_traits.hpp>
#include <type_traits>

struct __half;
struct __nv_bfloat16;
struct __nv_fp8_e4m3;
struct __nv_fp8_e5m2;
struct __nv_fp8_e8m0;
struct __nv_fp4_e2m1;

template <>
struct amp::format_of<__half> : std::type_identity<amp::half> {};
template <>
struct amp::format_of<__nv_bfloat16> : std::type_identity<amp::bfloat16> {};
template <>
struct amp::format_of<__nv_fp8_e4m3> : std::type_identity<amp::e4m3> {};
template <>
struct amp::format_of<__nv_fp8_e5m2> : std::type_identity<amp::e5m2> {};
template <>
struct amp::format_of<__nv_fp8_e8m0> : std::type_identity<amp::e8m0> {};
template <>
struct amp::format_of<__nv_fp4_e2m1> : std::type_identity<amp::e2m1> {};
