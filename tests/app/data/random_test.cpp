#include "data/random.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

using clipbert::data::Random;

TEST_SUITE("data/random") {
  TEST_CASE("the same words give the same stream, another word another one") {
    Random a{1, 2, 3}, b{1, 2, 3}, c{1, 2, 4}, d{1, 3, 2};
    const auto first = a.next();
    CHECK(first == b.next());
    CHECK(first != c.next());
    CHECK(first != d.next());
  }

  TEST_CASE("uniform draws stay in from 0 up to 1 and fill it evenly") {
    Random random{7};
    std::vector<int> tenths(10);
    for (int i = 0; i < 100000; ++i) {
      const double draw = random.uniform();
      REQUIRE((draw >= 0 && draw < 1));
      ++tenths[static_cast<std::size_t>(draw * 10)];
    }
    for (const int count : tenths) CHECK(std::abs(count - 10000) < 500);
  }

  TEST_CASE("a shuffle keeps every element and moves them") {
    std::vector<int> values(100), sorted(100);
    std::iota(values.begin(), values.end(), 0);
    sorted = values;
    Random{3}.shuffle(values);
    CHECK(values != sorted);
    CHECK(std::is_permutation(values.begin(), values.end(), sorted.begin()));
  }
}
