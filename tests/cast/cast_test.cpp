#include <doctest/doctest.h>

#include <amp/cast/cast.hpp>
#include <cmath>
#include <string_view>
#include <type_traits>
#include <vector>

using amp::bfloat16;
using amp::dtype;
using amp::half;
using amp::op;
namespace cast = amp::cast;

namespace {
using Half = cast::per_op<dtype::fp16>;
using Bf16 = cast::per_op<dtype::bf16>;

/// A tensor of a user's library that counts its casts.
template <class T>
struct Tensor {
  using storage_type = T;
  float value = 0.f;
  template <class U>
  [[nodiscard]] Tensor<U> cast() const {
    ++casts;
    return {float(U(value))};
  }
  static inline int casts = 0;
};
constexpr auto product = [](const auto& a, const auto& b) {
  using T = typename std::remove_cvref_t<decltype(a)>::storage_type;
  static_assert(std::is_same_v<std::remove_cvref_t<decltype(a)>, std::remove_cvref_t<decltype(b)>>);
  return Tensor<T>{a.value * b.value};
};
constexpr auto same = [](const auto& x, auto...) { return x; };

struct Mine : Half {
  static constexpr cast::rule rule_of(std::string_view name) {
    return name == "blur" ? cast::rule::fp32 : cast::default_rule(name);
  }
  static constexpr bool allow_banned = true;
};
}  // namespace

TEST_SUITE("cast/cast") {
  TEST_CASE("C7 input and output types are resolved at compile time") {
    const Tensor<float> x{3.f}, w{2.f};
    const auto y = op<Half, "matmul">(product, x, w);
    static_assert(std::is_same_v<decltype(y), const Tensor<half>>);
    CHECK(y.value == 6.f);
    static_assert(std::is_same_v<decltype(op<Bf16, "mm">(product, x, w)), Tensor<bfloat16>>);
    static_assert(std::is_same_v<decltype(op<Half, "exp">(same, y)), Tensor<float>>);
    static_assert(std::is_same_v<decltype(op<Half, "add">(product, y, x)), Tensor<float>>);
    static_assert(std::is_same_v<decltype(op<Half, "relu">(same, y)), Tensor<half>>);
  }
  TEST_CASE("C7 nothing is cast where the types agree: the counter stays at zero") {
    const Tensor<half> x{3.f}, w{2.f};
    Tensor<half>::casts = Tensor<float>::casts = 0;
    (void)op<Half, "matmul">(product, x, w);
    (void)op<Half, "add">(product, x, w);
    (void)op<Half, "relu">(same, x);
    (void)op<Half, "exp">(same, Tensor<float>{1.f});
    CHECK(Tensor<half>::casts + Tensor<float>::casts == 0);
    static_assert(cast::casts_of<Half, "matmul", Tensor<half>, Tensor<half>> == 0);
    static_assert(cast::casts_of<Half, "matmul", Tensor<half>, Tensor<float>> == 1);
    static_assert(cast::casts_of<Half, "exp", Tensor<half>> == 1);
    static_assert(cast::casts_of<Half, "relu", Tensor<half>, Tensor<float>> == 0);
    (void)op<Half, "matmul">(product, x, Tensor<float>{1.f});
    CHECK(Tensor<float>::casts == 1);
  }
  TEST_CASE("C7 an argument that needs no cast is passed on itself, not as a copy") {
    const Tensor<half> x{3.f};
    const Tensor<half>& seen = op<Half, "matmul">([](const Tensor<half>& t) -> const Tensor<half>& { return t; }, x);
    CHECK(&seen == &x);
  }
  TEST_CASE("C2 numbers, integers and doubles are no tensors of the policy and pass unchanged") {
    op<Half, "exp">(
        [](const auto& a, auto scale, auto count, const auto& wide) {
          static_assert(std::is_same_v<std::remove_cvref_t<decltype(a)>, std::vector<float>>);
          static_assert(std::is_same_v<decltype(scale), float> && std::is_same_v<decltype(count), int>);
          static_assert(std::is_same_v<std::remove_cvref_t<decltype(wide)>, std::vector<double>>);
          CHECK(a[0] == 0.5f);
        },
        std::vector<half>{half(0.5f)}, 2.f, 3, std::vector<double>{1.});
    static_assert(!cast::Castable<double> && !cast::Castable<std::vector<double>> && !cast::Castable<float>);
  }
  TEST_CASE("C7 in-place forms take the first argument's type") {
    Tensor<half> x{3.f};
    op<Half, "add_">(
        [](auto& a, const auto& b) {
          static_assert(std::is_same_v<std::remove_cvref_t<decltype(b)>, Tensor<half>>);
          a.value += b.value;
        },
        x, Tensor<float>{0.5f});
    CHECK(x.value == 3.5f);
  }
  TEST_CASE("C6 C7 a policy forces its own operations and may allow the banned ones in fp32") {
    const Tensor<half> p{0.5f};
    static_assert(std::is_same_v<decltype(op<Mine, "blur">(same, p)), Tensor<float>>);
    static_assert(std::is_same_v<decltype(op<Mine, "binary_cross_entropy">(same, p)), Tensor<float>>);
    static_assert(std::is_same_v<decltype(op<Half, "blur">(same, p)), Tensor<half>>);
    CHECK(op<Mine, "blur">(same, p).value == 0.5f);
  }
}
