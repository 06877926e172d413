/// CUDA's own conversions, which run on the host too, as an independent reference.
#include <doctest/doctest.h>

#if __has_include(<cuda_fp8.h>)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#if __has_include(<cuda_fp4.h>)
#include <cuda_fp4.h>
#endif

#include <amp/adapters/cuda_types.hpp>
#include <amp/formats/convert.hpp>
#include <amp/tensor/view.hpp>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "formats/reference.hpp"

namespace {

/// Equal bits, or NaN on both sides.
template <class T, class Word>
bool same(T ours, Word theirs) {
  const T other = T::from_bits(static_cast<typename T::storage_type>(theirs));
  return ours.bits() == other.bits() || (std::isnan(float(ours)) && std::isnan(float(other)));
}
std::vector<double> structured_doubles() {
  std::vector<double> all;
  for (const float x : test_formats::structured_floats()) {
    all.push_back(std::nextafter(static_cast<double>(x), 1e300));
    all.push_back(std::nextafter(static_cast<double>(x), -1e300));
  }
  return all;
}

}  // namespace

TEST_SUITE("formats/cuda_types") {
  TEST_CASE("N2 N3 N4 N5 fp16, bf16, e4m3 and e5m2 of a float equal CUDA's conversions, saturating or not") {
    unsigned wrong = 0;
    for (const float x : test_formats::structured_floats()) {
      wrong += same(amp::half(x), __half_as_ushort(__float2half_rn(x))) ? 0 : 1;
      wrong += same(amp::bfloat16(x), __bfloat16_as_ushort(__float2bfloat16_rn(x))) ? 0 : 1;
      wrong += same(amp::e4m3(x), __nv_cvt_float_to_fp8(x, __NV_NOSAT, __NV_E4M3)) ? 0 : 1;
      wrong += same(amp::e5m2(x), __nv_cvt_float_to_fp8(x, __NV_NOSAT, __NV_E5M2)) ? 0 : 1;
      const amp::saturating mode;
      wrong += same(amp::convert<amp::e4m3>(x, mode), __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3)) ? 0 : 1;
      wrong += same(amp::convert<amp::e5m2>(x, mode), __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E5M2)) ? 0 : 1;
    }
    CHECK(wrong == 0);
  }

  TEST_CASE("N6 a double rounds once, as CUDA's conversions from double do") {
    unsigned wrong = 0;
    for (const double x : structured_doubles()) {
      wrong += same(amp::half(x), __half_as_ushort(__double2half(x))) ? 0 : 1;
      wrong += same(amp::bfloat16(x), __bfloat16_as_ushort(__double2bfloat16(x))) ? 0 : 1;
      wrong += same(amp::e4m3(x), __nv_cvt_double_to_fp8(x, __NV_NOSAT, __NV_E4M3)) ? 0 : 1;
      wrong += same(amp::e5m2(x), __nv_cvt_double_to_fp8(x, __NV_NOSAT, __NV_E5M2)) ? 0 : 1;
    }
    CHECK(wrong == 0);
  }

#if __has_include(<cuda_fp4.h>)
  TEST_CASE("N4 N9 e2m1 and e8m0 equal CUDA's conversions") {
    unsigned wrong = 0;
    for (const float x : test_formats::structured_floats()) {
      wrong += same(amp::e8m0(x), __nv_cvt_float_to_e8m0(x, __NV_SATFINITE, cudaRoundPosInf)) ? 0 : 1;
      wrong += amp::e2m1(x).bits() == __nv_cvt_float_to_fp4(x, __NV_E2M1, cudaRoundNearest) ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
#endif

  TEST_CASE("N11 tensors of CUDA's types are used in place") {
    static_assert(std::is_same_v<amp::format_t<__half>, amp::half> && amp::LayoutCompatible<__nv_bfloat16>);
    std::vector<__nv_fp8_e4m3> values(5, __nv_fp8_e4m3(1.5f));
    const amp::tensor_view view = amp::as_view(values);
    CHECK(view.data == values.data());
    CHECK(view.type == amp::dtype::e4m3);
    CHECK(amp::bit_view(values[2]) == amp::e4m3(1.5f));
    CHECK(static_cast<float>(amp::bit_view_as<__half>(amp::half(0.25f))) == 0.25f);
    CHECK(amp::dtype_of<__nv_fp8_e5m2> == amp::dtype::e5m2);
#if __has_include(<cuda_fp4.h>)
    static_assert(amp::BitCompatible<__nv_fp4_e2m1> && !amp::LayoutCompatible<__nv_fp4_e2m1>);
    CHECK(amp::bit_view(__nv_fp4_e2m1(3.f)) == amp::e2m1(3.f));
#endif
  }
}
#else
#include "support/skip.hpp"

TEST_SUITE("formats/cuda_types") {
  TEST_CASE("N11 tensors of CUDA's types are used in place") {
    test_support::skip("no CUDA headers here: set CUDAToolkit_ROOT or CPLUS_INCLUDE_PATH to compare with them");
  }
}
#endif
