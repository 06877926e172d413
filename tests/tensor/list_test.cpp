#include <doctest/doctest.h>

#include <amp/tensor/list.hpp>
#include <span>
#include <vector>

TEST_SUITE("tensor/list") {
  TEST_CASE("a range of tensors of any kind becomes a list of views in order") {
    std::vector<std::vector<float>> tensors{{1.f, 2.f}, {}, {3.f}};
    const auto views = amp::list_of(tensors);
    REQUIRE(views.size() == 3);
    CHECK(views[0].data == tensors[0].data());
    CHECK(views[1].size == 0);
    CHECK(views[2].size == 1);
    CHECK(amp::total_size(views) == 3);
    const std::vector<amp::view<amp::half>> typed(2);
    CHECK(amp::list_of(typed)[1].type == amp::dtype::fp16);
    const auto again = amp::list_of(views);
    CHECK(again[0].data == views[0].data);
    CHECK(amp::list_of(std::vector<std::span<const float>>(1))[0].readonly);
    CHECK(amp::total_size({}) == 0);
  }
}
