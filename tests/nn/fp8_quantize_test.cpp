/// Every recipe against its definition written out per element in the test.
#include <doctest/doctest.h>

#include <algorithm>
#include <amp/formats/convert.hpp>
#include <amp/nn/fp8_quantize.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "nn/support.hpp"
#include "simd/targets.hpp"

using amp::saturating;
using amp::fp8::along;
using amp::fp8::operand;
using amp::fp8::quantize;
using test_nn::Matrix;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

float value(const Matrix& x, std::int64_t r, std::int64_t c) { return static_cast<float>(x.at(r, c)); }

/// Largest magnitude of the part of x that block (i, j) of br x bc covers, NaN ignored.
float block_amax(const Matrix& x, std::int64_t i, std::int64_t j, std::int64_t br, std::int64_t bc) {
  float largest = 0.f;
  for (std::int64_t r = i * br; r < std::min(x.rows(), (i + 1) * br); ++r) {
    for (std::int64_t c = j * bc; c < std::min(x.columns(), (j + 1) * bc); ++c) {
      const float magnitude = std::abs(value(x, r, c));
      if (magnitude > largest) largest = magnitude;
    }
  }
  return largest;
}

/// How many codes, scales or values differ from saturate(x * scale) per block, scale and its inverse by `rule(amax)`.
template <class T, class Q, class Rule>
int differences(const Matrix& x, const Q& q, std::int64_t br, std::int64_t bc, Rule rule) {
  int wrong = q.rows == x.rows() && q.columns == x.columns() && q.block_rows == br && q.block_columns == bc ? 0 : 1;
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    for (std::int64_t c = 0; c < x.columns(); ++c) {
      const auto [scale, inverse] = rule(block_amax(x, r / br, c / bc, br, bc));
      const T code = amp::convert<T>(value(x, r, c) * scale, saturating{});
      const bool same_code =
          q.code_at(r, c).bits() == code.bits() || (std::isnan(float(code)) && std::isnan(float(q.code_at(r, c))));
      wrong += same_code && float(q.scale_at(r, c)) == inverse ? 0 : 1;
      wrong += std::isnan(float(code)) || q.value_at(r, c) == float(code) * inverse * q.tensor_scale ? 0 : 1;
    }
  }
  return wrong;
}
struct factors {
  float scale, inverse;
};

}  // namespace

TEST_SUITE("nn/fp8_quantize") {
  TEST_CASE("Q1 Q4 current scaling takes the tensor's own amax to the format's largest number, e5m2 for gradients") {
    const amp::fp8::current_scaling<> recipe;
    Matrix x(13, 37, amp::dtype::fp32, 5, 3);
    x.random(1, 3.f).set(7, 11, -9.f);
    const auto q = quantize<operand::activation>(amp::exec::vectorized{}, recipe, x.view());
    static_assert(std::is_same_v<decltype(q.codes[0]), const amp::e4m3&>);
    CHECK(q.amax == 9.f);
    CHECK(differences<amp::e4m3>(x, q, 13, 37, [](float amax) {
            return factors{448.f / amax, 1.f / (448.f / amax)};
          }) == 0);
    CHECK(q.value_at(7, 11) == doctest::Approx(-9.f));
    const auto g = quantize<operand::gradient>(amp::exec::vectorized{}, recipe, x.view());
    CHECK(differences<amp::e5m2>(x, g, 13, 37, [](float amax) {
            return factors{57344.f / amax, 1.f / (57344.f / amax)};
          }) == 0);
    const auto values = amp::fp8::dequantize(q);
    CHECK(values[7 * 37 + 11] == q.value_at(7, 11));
  }

  TEST_CASE("Q4 block scaling: 128 x 128 for weights, 128 of a row for others, powers of two, ragged ends") {
    const amp::fp8::block_scaling<> recipe;
    Matrix x(130, 257, amp::dtype::bf16, 1);
    x.random(2, 5.f);
    const auto power = [](float amax) {
      const float scale = std::exp2(std::floor(std::log2(448.f / amax)));
      return factors{scale, 1.f / scale};
    };
    CHECK(differences<amp::e4m3>(x, quantize<operand::weight>(amp::exec::vectorized{}, recipe, x.view()), 128, 128,
                                 power) == 0);
    CHECK(differences<amp::e4m3>(x, quantize<operand::activation>(amp::exec::vectorized{}, recipe, x.view()), 1, 128,
                                 power) == 0);
    CHECK(differences<amp::e4m3>(
              x, quantize<operand::gradient>(amp::exec::vectorized{}, recipe, x.view(), {along::column}), 128, 1,
              power) == 0);
    const amp::fp8::block_scaling<> any_scale{.rule = {}};
    CHECK(differences<amp::e4m3>(x, quantize<operand::activation>(amp::exec::vectorized{}, any_scale, x.view()), 1, 128,
                                 [](float amax) {
                                   return factors{448.f / amax, 1.f / (448.f / amax)};
                                 }) == 0);
  }

  TEST_CASE("Q4 MXFP8: 32 along the row and, from the source, along the column, e8m0 scales rounded up") {
    const amp::fp8::mx_scaling<> recipe;
    Matrix x(70, 45, amp::dtype::fp32, 2);
    x.random(3, 1000.f);
    const auto up = [](float amax) {
      const float inverse = std::exp2(std::ceil(std::log2(amax / 448.f)));
      return factors{1.f / inverse, inverse};
    };
    const auto rows = quantize<operand::activation>(amp::exec::vectorized{}, recipe, x.view());
    CHECK(differences<amp::e4m3>(x, rows, 1, 32, up) == 0);
    CHECK(rows.scales.size() == 70 * 2);  // the last block of a row has 13 elements
    const auto columns = quantize<operand::activation>(amp::exec::vectorized{}, recipe, x.view(), {along::column});
    CHECK(differences<amp::e4m3>(x, columns, 32, 1, up) == 0);
    CHECK(columns.scales.size() == 3 * 45);
    for (std::int64_t c = 0; c < 45; ++c)
      CHECK(std::abs(rows.value_at(0, c) - value(x, 0, c)) <= 32.f * float(rows.scale_at(0, c)));

    Matrix zero(2, 33);
    zero.fill(0.f).set(1, 32, 1e-44f);  // counts as 0
    const auto q = quantize<operand::weight>(amp::exec::vectorized{}, recipe, zero.view());
    for (const amp::e8m0 scale : q.scales) CHECK(scale.bits() == 0);
    for (const amp::e4m3 code : q.codes) CHECK(code.bits() == 0);
  }

  TEST_CASE("Q4 MX blocks at the ends of fp32's range keep their values, FTZ and DAZ set or not") {
    const amp::fp8::mx_scaling<> recipe;
    for (const float x : {0x1p-125f, 0x1.8p-119f, 0x1.8p126f, 0x1.8p127f}) {
      Matrix m(1, 32);
      m.fill(0.f).set(0, 5, x);
      const auto q = quantize<operand::activation>(amp::exec::vectorized{}, recipe, m.view());
      CHECK(q.value_at(0, 5) == doctest::Approx(x).epsilon(0.07));
      const amp::simd::flush_scope flush;
      CHECK(q.value_at(0, 5) == doctest::Approx(x).epsilon(0.07));
    }
  }

  TEST_CASE("Q5 NVFP4: e2m1 in blocks of 16 with an e4m3 scale below the tensor's, 16 x 16 for weights") {
    const amp::fp8::nvfp4_scaling recipe{.stochastic_gradients = false};
    Matrix x(20, 50, amp::dtype::fp32, 3);
    x.random(4, 2.f).set(3, 3, 40.f);
    const float encode = 448.f * 6.f / 40.f;
    const auto check = [&](const auto& q, std::int64_t br, std::int64_t bc) {
      CHECK(q.tensor_scale == 1.f / encode);
      int wrong = 0;
      for (std::int64_t r = 0; r < x.rows(); ++r) {
        for (std::int64_t c = 0; c < x.columns(); ++c) {
          const float amax = block_amax(x, r / br, c / bc, br, bc);
          const auto scale = amp::convert<amp::e4m3>(amax / 6.f * encode, saturating{});
          const amp::e2m1 code(value(x, r, c) * (encode / float(scale)));
          wrong += q.scale_at(r, c) == scale && q.code_at(r, c).bits() == code.bits() ? 0 : 1;
          wrong += q.value_at(r, c) == float(code) * float(scale) * q.tensor_scale ? 0 : 1;
        }
      }
      CHECK(wrong == 0);
    };
    check(quantize<operand::weight>(amp::exec::vectorized{}, recipe, x.view()), 16, 16);
    check(quantize<operand::activation>(amp::exec::vectorized{}, recipe, x.view()), 1, 16);
    check(quantize<operand::gradient>(amp::exec::vectorized{}, recipe, x.view()), 1, 16);
    check(quantize<operand::activation>(amp::exec::vectorized{}, recipe, x.view(), {along::column}), 16, 1);

    Matrix zero(1, 20);
    zero.fill(0.f);
    const auto q = quantize<operand::activation>(amp::exec::vectorized{}, recipe, zero.view());
    CHECK(q.tensor_scale == 1.f);  // an amax of 0
    for (const auto code : q.codes) CHECK(code.bits() == 0);
  }

  TEST_CASE("Q5 N8 NVFP4 gradients are rounded stochastically: neighbours, no bias, the same words for any executor") {
    Matrix x(64, 64);
    x.fill(0.4f);
    for (std::int64_t r = 0; r < 64; ++r)
      for (std::int64_t c = 0; c < 64; c += 16) x.set(r, c, 6.f);  // scale 1 in every block
    const amp::fp8::nvfp4_scaling recipe{.seed = 77};
    const auto q = quantize<operand::gradient>(amp::exec::vectorized{}, recipe, x.view(), {along::row, 5});
    double sum = 0;
    int others = 0, count = 0;
    for (std::int64_t r = 0; r < 64; ++r) {
      for (std::int64_t c = 0; c < 64; ++c) {
        if (c % 16 == 0) continue;
        const float y = float(q.code_at(r, c));
        others += y == 0.f || y == 0.5f ? 0 : 1;
        sum += static_cast<double>(y);
        ++count;
      }
    }
    CHECK(others == 0);
    CHECK(std::abs(sum / count - 0.4) < 4 * 0.2 / std::sqrt(count));  // deviation of 0 and 0.5 with probability 0.8
    const auto again = quantize<operand::gradient>(amp::exec::scalar{}, recipe, x.view(), {along::row, 5});
    const auto other = quantize<operand::gradient>(amp::exec::scalar{}, recipe, x.view(), {along::row, 6});
    const auto weight = quantize<operand::weight>(amp::exec::scalar{}, recipe, x.view());
    const auto codes_equal = [](const auto& a, const auto& b) {
      return std::equal(a.codes.begin(), a.codes.end(), b.codes.begin(),
                        [](auto u, auto v) { return u.bits() == v.bits(); });
    };
    CHECK(codes_equal(q, again));
    CHECK_FALSE(codes_equal(q, other));
    CHECK(float(weight.code_at(0, 1)) == 0.5f);  // to nearest
  }

  TEST_CASE("Q6 codes and scales are equal bits for every executor, target and thread count") {
    Matrix x(75, 301, amp::dtype::fp16, 2, 1);
    x.random(9, 30.f);
    const auto same = [](const auto& a, const auto& b) {
      const auto equal = [](auto u, auto v) { return amp::simd::bits_of(float(u)) == amp::simd::bits_of(float(v)); };
      return std::equal(a.codes.begin(), a.codes.end(), b.codes.begin(), equal) &&
             std::equal(a.scales.begin(), a.scales.end(), b.scales.begin(), b.scales.end(), equal) && a.amax == b.amax;
    };
    const auto all = [&](const auto& recipe) {
      const auto expected = quantize<operand::gradient>(amp::exec::scalar{}, recipe, x.view());
      for (const auto isa : test_simd::targets()) {
        CAPTURE(amp::simd::name(isa));
        CHECK(same(quantize<operand::gradient>(amp::exec::vectorized{.target = isa}, recipe, x.view()), expected));
      }
      CHECK(same(quantize<operand::gradient>(amp::exec::threads(3), recipe, x.view()), expected));
    };
    all(amp::fp8::current_scaling<>{});
    all(amp::fp8::mx_scaling<>{});
    all(amp::fp8::nvfp4_scaling{.seed = 3});
  }

  TEST_CASE("Q7 NaN stays NaN where the format has one, scales stay finite, the flag is raised") {
    Matrix x(4, 64);
    x.random(5).set(1, 40, std::numeric_limits<float>::quiet_NaN());
    x.set(2, 3, -infinity);
    const auto current =
        quantize<operand::activation>(amp::exec::vectorized{}, amp::fp8::current_scaling<>{}, x.view());
    const auto block = quantize<operand::activation>(amp::exec::vectorized{}, amp::fp8::block_scaling<>{}, x.view());
    const auto mx = quantize<operand::activation>(amp::exec::vectorized{}, amp::fp8::mx_scaling<>{}, x.view());
    const auto fp4 = quantize<operand::activation>(amp::exec::vectorized{}, amp::fp8::nvfp4_scaling{}, x.view());
    const auto scales_finite = [](const auto& q) {
      return std::all_of(q.scales.begin(), q.scales.end(), [](auto s) { return std::isfinite(float(s)); }) &&
             std::isfinite(q.tensor_scale);
    };
    CHECK(scales_finite(current));
    CHECK(scales_finite(block));
    CHECK(scales_finite(mx));
    CHECK(scales_finite(fp4));
    CHECK_FALSE(current.finite);
    CHECK_FALSE(block.finite);
    CHECK_FALSE(mx.finite);
    CHECK_FALSE(fp4.finite);
    CHECK(std::isnan(float(current.code_at(1, 40))));
    CHECK(std::isnan(float(block.code_at(1, 40))));
    CHECK(std::isnan(float(mx.code_at(1, 40))));
    CHECK(float(fp4.code_at(1, 40)) == 6.f);
    CHECK(float(current.code_at(2, 3)) == -448.f);
    CHECK(float(mx.code_at(2, 3)) == -448.f);
    CHECK(mx.scale_at(2, 3).bits() == 0xfe);
    CHECK(float(fp4.code_at(2, 3)) == -6.f);
    CHECK(mx.value_at(3, 5) == doctest::Approx(value(x, 3, 5)).epsilon(0.07));  // other blocks keep theirs
    Matrix clean(2, 2);
    clean.fill(1.f);
    CHECK(quantize<operand::activation>(amp::exec::vectorized{}, amp::fp8::mx_scaling<>{}, clean.view()).finite);
  }

  TEST_CASE("Q1 Q6 recipes are types that name the formats, empty matrices and bad blocks are handled") {
    using namespace amp::fp8;
    static_assert(std::is_same_v<format<recipe_type<amp::fp8::hybrid>, operand::weight>, amp::e4m3>);
    static_assert(std::is_same_v<format<recipe_type<amp::fp8::hybrid>, operand::gradient>, amp::e5m2>);
    static_assert(std::is_same_v<format<recipe_type<amp::fp8::e4m3>, operand::gradient>, amp::e4m3>);
    static_assert(std::is_same_v<format<recipe_type<amp::fp8::nvfp4>, operand::activation>, amp::e2m1>);
    static_assert(std::is_same_v<recipe_type<amp::fp8::mxfp8>, mx_scaling<>>);
    static_assert(std::is_same_v<recipe_type<amp::fp8::none>, no_recipe> && !Recipe<no_recipe>);
    static_assert(Recipe<recipe_type<amp::fp8::block>> && Recipe<recipe_type<amp::fp8::current>>);
    const amp::matrix_view empty{};
    CHECK(quantize<operand::weight>(amp::exec::vectorized{}, current_scaling<>{}, empty).codes.empty());
    CHECK(quantize<operand::weight>(amp::exec::vectorized{}, mx_scaling<>{}, empty).scales.empty());
    CHECK_THROWS_WITH_AS(
        static_cast<void>(quantize_blocks<amp::e4m3>(amp::exec::vectorized{}, empty, 0, 1, power_scale<amp::e4m3>{})),
        doctest::Contains("a block has 1 to 16384 elements"), amp::error);
  }
}
