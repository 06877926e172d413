#include <doctest/doctest.h>

#include <Eigen/Dense>
#include <amp/adapters/eigen.hpp>
#include <amp/amp.hpp>
#include <cstdint>
#include <cstring>
#include <vector>

#include "eigen/mlp.hpp"

namespace {
template <class T>
std::uint16_t bits(T x) {
  std::uint16_t b = 0;
  std::memcpy(&b, &x, 2);
  return b;
}
}  // namespace

TEST_SUITE("eigen") {
  TEST_CASE("N11 Eigen's low types are viewed in place, with the same bits and the same values") {
    static_assert(amp::LayoutCompatible<Eigen::half> && amp::LayoutCompatible<Eigen::bfloat16>);
    for (std::uint32_t k = 0; k < 65536; ++k) {
      const auto h = Eigen::numext::bit_cast<Eigen::half>(static_cast<std::uint16_t>(k));
      const auto b = Eigen::numext::bit_cast<Eigen::bfloat16>(static_cast<std::uint16_t>(k));
      const float hf = static_cast<float>(h), bf = static_cast<float>(b);
      if (hf == hf) REQUIRE(float(amp::bit_view(h)) == hf);
      if (bf == bf) REQUIRE(float(amp::bit_view(b)) == bf);
      if (hf == hf) REQUIRE(bits(amp::half(hf)) == k);
      if (bf == bf) REQUIRE(bits(amp::bfloat16(bf)) == k);
    }
  }
  TEST_CASE("N11 Eigen computes with matrices of our 8-bit floats, which lists take in place") {
    Eigen::Matrix<amp::e4m3, 2, 3> weights = (Eigen::Matrix<float, 2, 3>::Random() * 4.f).cast<amp::e4m3>();
    const Eigen::Matrix<float, 2, 3> wide = weights.cast<float>();
    CHECK((weights + weights).cast<float>()(1, 2) == 2.f * wide(1, 2));
    CHECK(weights.cwiseProduct(wide)(0, 1) == wide(0, 1) * wide(0, 1));
    CHECK(weights.maxCoeff() == amp::e4m3(wide.maxCoeff()));
    const amp::tensor_view view = amp::as_view(weights);
    CHECK(view.type == amp::dtype::e4m3);
    CHECK(view.data == weights.data());
    CHECK(view.size == 6);
  }
  TEST_CASE("A8 matrices of Eigen's and of our low types go through multi_tensor_apply beside float ones") {
    Eigen::Matrix<Eigen::bfloat16, 3, 5> theirs;
    Eigen::Matrix<amp::bfloat16, Eigen::Dynamic, Eigen::Dynamic> ours(3, 5);
    const Eigen::MatrixXf from = Eigen::MatrixXf::Random(3, 5);
    const amp::tensor_view source[] = {amp::as_view(from)}, a[] = {amp::as_view(theirs)}, b[] = {amp::as_view(ours)};
    CHECK(source[0].readonly);
    CHECK(a[0].type == amp::dtype::bf16);
    amp::multi_tensor_apply(amp::exec::vectorized{}, amp::fn::Copy{}, amp::lane::out(a), amp::lane::in(source));
    amp::multi_tensor_apply(amp::exec::vectorized{}, amp::fn::Copy{}, amp::lane::out(b), amp::lane::in(source));
    for (int i = 0; i < 15; ++i) {
      CHECK(bits(theirs(i)) == bits(ours(i)));
      CHECK(float(ours(i)) == float(amp::bfloat16(from(i))));
    }
  }
  TEST_CASE("a map is a view of its memory") {
    std::vector<float> memory{1.f, 2.f, 3.f, 4.f};
    Eigen::Map<Eigen::Matrix2f> map(memory.data());
    CHECK(amp::as_view(map).data == memory.data());
    CHECK(amp::as_view(map).size == 4);
  }
  TEST_CASE("our low types are scalars of Eigen: casts, sums with float, comparisons") {
    Eigen::Matrix<amp::half, 4, 1> h = Eigen::Vector4f(1.f, 2.f, 3.f, 4.f).cast<amp::half>();
    CHECK(h.cast<float>().sum() == 10.f);
    CHECK((h.cast<float>() - Eigen::Vector4f::Ones()).norm() == doctest::Approx(std::sqrt(14.)));
    h += h;
    CHECK(float(h[3]) == 8.f);
    const Eigen::Vector4f mixed = h.cwiseProduct(Eigen::Vector4f::Constant(0.5f));
    CHECK(mixed[2] == 3.f);
    CHECK(float(Eigen::NumTraits<amp::half>::highest()) == 65504.f);
  }
  TEST_CASE_TEMPLATE("a two-layer perceptron learns a curve at O0, O2 and O2_bf16", Level,
                     std::integral_constant<int, 0>, std::integral_constant<int, 1>, std::integral_constant<int, 2>) {
    constexpr amp::OptLevel level = Level::value == 0 ? amp::O0 : Level::value == 1 ? amp::O2 : amp::O2_bf16;
    CHECK(train_mlp<level>(600) < 0.02f);
  }
}
