#include <doctest/doctest.h>

#include <amp/tensor/param.hpp>
#include <type_traits>
#include <vector>

TEST_SUITE("tensor/param") {
  TEST_CASE("a parameter gives views of its value and its gradient, which may be missing") {
    std::vector<amp::bfloat16> value(3, amp::bfloat16(1.f));
    std::vector<float> grad(3);
    amp::Param p{.name = "layer.weight", .value = value.data(), .size = 3, .type = amp::dtype::bf16};
    CHECK_FALSE(p.has_grad());
    CHECK(p.grad_view().size == 0);
    CHECK(p.value_view().name == "layer.weight");
    CHECK(p.value_view().type == amp::dtype::bf16);
    p.grad = grad.data();
    CHECK(p.has_grad());
    CHECK(p.grad_view().size == 3);
    CHECK(p.grad_view().type == amp::dtype::fp32);
    CHECK(p.requires_grad);
  }

  TEST_CASE("visit hands out the value as a typed view") {
    std::vector<amp::half> value(3, amp::half(2.f));
    const amp::Param p{.name = "w", .value = value.data(), .size = 3, .type = amp::dtype::fp16};
    const float first = p.visit([]<class T>(amp::view<T> v) {
      CHECK(std::is_same_v<T, amp::half>);
      CHECK(v.size == 3);
      return float(v.data[0]);
    });
    CHECK(first == 2.f);
    amp::Param broken = p;
    broken.type = static_cast<amp::dtype>(9);
    CHECK_THROWS_AS(broken.visit([]<class T>(amp::view<T>) { return 0.f; }), amp::error);
  }
}
