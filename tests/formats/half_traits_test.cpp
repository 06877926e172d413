#include <doctest/doctest.h>

#include <amp/half_traits.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace foreign {
struct Half {  // as a tensor library would have it
  std::uint16_t x;
};
struct Wide {
  std::uint16_t x, y;
};
}  // namespace foreign
template <>
struct amp::format_of<foreign::Half> {
  using type = amp::half;
};
template <>
struct amp::format_of<foreign::Wide> {
  using type = amp::half;
};

using amp::bfloat16;
using amp::dtype;
using amp::half;
using amp::half_traits;

TEST_SUITE("formats/half_traits") {
  TEST_CASE("N1 the facts of fp32, fp16 and bf16 are those of their definition") {
    static_assert(half_traits<half>::exponent_bits == 5 && half_traits<half>::mantissa_bits == 10);
    static_assert(half_traits<half>::bias == 15 && half_traits<half>::digits == 11);
    static_assert(half_traits<half>::max == 65504.f && half_traits<half>::min_normal == 0x1p-14f);
    static_assert(half_traits<half>::denorm_min == 0x1p-24f && half_traits<half>::epsilon == 0x1p-10f);
    static_assert(half_traits<bfloat16>::exponent_bits == 8 && half_traits<bfloat16>::mantissa_bits == 7);
    static_assert(half_traits<bfloat16>::bias == 127 && half_traits<bfloat16>::digits == 8);
    static_assert(half_traits<bfloat16>::max == 0x1.fep127f && half_traits<bfloat16>::min_normal == 0x1p-126f);
    static_assert(half_traits<bfloat16>::denorm_min == 0x1p-133f && half_traits<bfloat16>::epsilon == 0x1p-7f);
    static_assert(half_traits<float>::max == std::numeric_limits<float>::max() && half_traits<float>::digits == 24);
    static_assert(half_traits<float>::denorm_min == std::numeric_limits<float>::denorm_min());
    static_assert(half_traits<float>::epsilon == std::numeric_limits<float>::epsilon());
    static_assert(half_traits<half>::has_infinity && half_traits<half>::has_nan &&
                  half_traits<half>::has_negative_zero);
    static_assert(half_traits<half>::wants_loss_scale && !half_traits<bfloat16>::wants_loss_scale);
    static_assert(std::is_same_v<half_traits<half>::compute_type, float>);
    static_assert(std::is_same_v<half_traits<half>::accumulate_type, float>);
    CHECK(float(half::from_bits(0x7bff)) == half_traits<half>::max);
    CHECK(float(bfloat16::from_bits(0x7f7f)) == half_traits<bfloat16>::max);
  }

  TEST_CASE("N1 the facts of the 8-bit and 4-bit formats are those of their definition") {
    using A = half_traits<amp::e4m3>;
    static_assert(A::exponent_bits == 4 && A::mantissa_bits == 3 && A::bias == 7 && A::digits == 4);
    static_assert(A::max == 448.f && A::min_normal == 0x1p-6f && A::denorm_min == 0x1p-9f && A::epsilon == 0x1p-3f);
    static_assert(!A::has_infinity && A::has_nan && A::has_negative_zero);
    using B = half_traits<amp::e5m2>;
    static_assert(B::exponent_bits == 5 && B::mantissa_bits == 2 && B::bias == 15 && B::digits == 3);
    static_assert(B::max == 57344.f && B::min_normal == 0x1p-14f && B::denorm_min == 0x1p-16f && B::epsilon == 0x1p-2f);
    static_assert(B::has_infinity && B::has_nan && B::has_negative_zero);
    using C = half_traits<amp::e4m3fnuz>;
    static_assert(C::exponent_bits == 4 && C::mantissa_bits == 3 && C::bias == 8 && C::digits == 4);
    static_assert(C::max == 240.f && C::min_normal == 0x1p-7f && C::denorm_min == 0x1p-10f && C::epsilon == 0x1p-3f);
    static_assert(!C::has_infinity && C::has_nan && !C::has_negative_zero);
    using D = half_traits<amp::e5m2fnuz>;
    static_assert(D::exponent_bits == 5 && D::mantissa_bits == 2 && D::bias == 16 && D::digits == 3);
    static_assert(D::max == 57344.f && D::min_normal == 0x1p-15f && D::denorm_min == 0x1p-17f && D::epsilon == 0.25f);
    static_assert(!D::has_infinity && D::has_nan && !D::has_negative_zero);
    using E = half_traits<amp::e2m1>;
    static_assert(E::exponent_bits == 2 && E::mantissa_bits == 1 && E::bias == 1 && E::digits == 2);
    static_assert(E::max == 6.f && E::min_normal == 1.f && E::denorm_min == 0.5f && E::epsilon == 0.5f);
    static_assert(!E::has_infinity && !E::has_nan && E::has_negative_zero);
    using F = half_traits<amp::e8m0>;
    static_assert(F::exponent_bits == 8 && F::mantissa_bits == 0 && F::bias == 127 && F::digits == 1);
    static_assert(F::max == 0x1p127f && F::min_normal == 0x1p-127f && F::epsilon == 1.f);
    static_assert(!F::has_infinity && F::has_nan && !F::has_negative_zero);
    CHECK(amp::e4m3(448.f).bits() == 0x7e);
    CHECK(amp::e5m2(57344.f).bits() == 0x7b);
    CHECK(amp::e8m0::from_bits(0xfe) == amp::e8m0(0x1p127f));
  }

  TEST_CASE_TEMPLATE("N3 overflow_bits is the first magnitude that is beyond the range once stored", T, half, bfloat16,
                     amp::e4m3, amp::e5m2, amp::e4m3fnuz, amp::e5m2fnuz) {
    const auto limit = static_cast<std::uint32_t>(half_traits<T>::overflow_bits);
    CHECK_FALSE(std::isfinite(float(T(__builtin_bit_cast(float, limit)))));
    CHECK(float(T(__builtin_bit_cast(float, limit - 1))) == half_traits<T>::max);
  }

  TEST_CASE("the concepts tell low formats, storage formats and layout-compatible types apart") {
    static_assert(amp::LowPrecision<half> && amp::LowPrecision<bfloat16> && !amp::LowPrecision<float>);
    static_assert(amp::LowPrecision<amp::e4m3> && amp::LowPrecision<amp::e5m2> && amp::Storage<amp::e4m3fnuz>);
    static_assert(!amp::Storage<amp::e2m1> && !amp::Storage<amp::e8m0>, "no tensors of our lists are stored in them");
    static_assert(amp::Storage<float> && amp::Storage<half> && !amp::Storage<double> && !amp::Storage<int>);
    static_assert(amp::LayoutCompatible<foreign::Half> && amp::LayoutCompatible<const half>);
    static_assert(!amp::LayoutCompatible<foreign::Wide>, "a wrong size is no layout");
    static_assert(!amp::LayoutCompatible<double>);
    CHECK(amp::dtype_of<foreign::Half> == dtype::fp16);
    CHECK(amp::dtype_of<const float> == dtype::fp32);
  }

  TEST_CASE("N11 a foreign value and ours share their bits") {
    CHECK(amp::bit_view(foreign::Half{0x3c00}) == half(1.f));
    CHECK(amp::bit_view_as<foreign::Half>(half(1.f)).x == 0x3c00);
#if defined(__FLT16_MAX__)
    CHECK(amp::bit_view(static_cast<_Float16>(1.5f)) == half(1.5f));
    CHECK(amp::dtype_of<_Float16> == dtype::fp16);
#endif
  }

  TEST_CASE("visit turns a run-time format into its type and refuses a value that is none") {
    const auto bits = [](dtype t) {
      return amp::visit(t, []<class T>(std::type_identity<T>) { return half_traits<T>::mantissa_bits; });
    };
    CHECK(bits(dtype::fp32) == 23);
    CHECK(bits(dtype::fp16) == 10);
    CHECK(bits(dtype::bf16) == 7);
    CHECK(bits(dtype::e4m3) == 3);
    CHECK(bits(dtype::e5m2) == 2);
    CHECK(bits(dtype::e4m3fnuz) == 3);
    CHECK(bits(dtype::e5m2fnuz) == 2);
    CHECK_THROWS_WITH_AS(bits(static_cast<dtype>(77)), doctest::Contains("unknown dtype 77"), amp::error);
  }
}
