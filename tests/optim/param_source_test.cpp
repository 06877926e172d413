#include <doctest/doctest.h>

#include <amp/optim/param_source.hpp>
#include <vector>

TEST_SUITE("optim/param_source") {
  TEST_CASE("a parameter is made of anything that has a view, in two formats if need be") {
    std::vector<amp::half> w(3, amp::half(2.f));
    std::vector<float> g(3, 1.f);
    const amp::Param p = amp::make_param("w", w, g, amp::role::bias);
    CHECK(p.name == "w");
    CHECK(p.size == 3);
    CHECK(p.type == amp::dtype::fp16);
    CHECK(p.grad_type == amp::dtype::fp32);
    CHECK(p.role == amp::role::bias);
    CHECK(p.requires_grad);
    g.pop_back();
    CHECK_THROWS_WITH_AS((void)amp::make_param("w", w, g),
                         doctest::Contains("parameter w has 3 elements, its gradient 2"), amp::error);
  }
  TEST_CASE("zeros are written in any format, and nothing where there is no gradient") {
    std::vector<amp::bfloat16> w(2), g(2, amp::bfloat16(-3.f));
    amp::FixedParams source({amp::make_param("w", w, g)});
    source.zero_grad(0, amp::zeroing::release);
    CHECK(g[0].bits() == 0);
    CHECK(g[1].bits() == 0);
    CHECK(source.refresh()[0].grad == g.data());
    amp::Param none = source.refresh()[0];
    none.grad = nullptr;
    amp::fill_zero(none);
    CHECK(none.grad_view().size == 0);
    CHECK_FALSE(none.has_grad());
  }
}
