#include <doctest/doctest.h>

#include <amp/apply/plan.hpp>
#include <cstdint>
#include <vector>

#include "apply/tensors.hpp"

using amp::apply::plan;
using amp::apply::work_item;

namespace {

std::vector<amp::tensor_view> views(const std::vector<std::int64_t>& sizes) {
  std::vector<amp::tensor_view> all;
  for (const auto size : sizes) all.push_back({.data = nullptr, .size = size});
  return all;
}

/// Whether the pieces of a plan cover every element of every tensor once, in order, each within the chunk size.
bool covers(const std::vector<amp::tensor_view>& list, std::int64_t chunk) {
  const plan p(list, chunk);
  std::vector<std::int64_t> next(list.size());
  bool good = true;
  std::int64_t elements = 0;
  for (const work_item& item : p.items()) {
    std::int64_t in_item = 0;
    amp::apply::for_each_piece(item, chunk, list, [&](const amp::apply::piece& piece) {
      auto& reached = next[static_cast<std::size_t>(piece.tensor)];
      good = good && piece.offset == reached && piece.length >= 1 && piece.length <= chunk &&
             piece.offset == piece.chunk * chunk;
      reached += piece.length;
      in_item += piece.length;
    });
    good = good && in_item == item.length && in_item <= chunk;
    elements += in_item;
  }
  for (std::size_t t = 0; t < list.size(); ++t) good = good && next[t] == list[t].size;
  return good && elements == p.elements() && elements == amp::total_size(list);
}

}  // namespace

TEST_SUITE("apply/plan") {
  TEST_CASE("A1 every element is visited once for any chunk size and any places of empty tensors") {
    const std::vector<std::vector<std::int64_t>> lists{
        {},       {0},          {0, 0, 0},     {1},           {5, 0},     {0, 5},  {0, 0, 5, 0, 0, 7, 0},
        {100000}, {10, 20, 30}, {65536, 1, 1}, {1, 65536, 1}, {3, 65537}, {64, 64}};
    for (const auto& sizes : lists) {
      for (const std::int64_t chunk : {1, 2, 7, 64, 333, 65536, 1000000}) {
        CAPTURE(chunk);
        CHECK(covers(views(sizes), chunk));
      }
    }
    CHECK(covers(views(test_apply::awkward_sizes()), 33333));
  }

  TEST_CASE("A3 small neighbours share a work item, empty tensors take no slot") {
    CHECK(plan(views({100, 0, 200, 300}), 65536).items().size() == 1);
    CHECK(plan(views(std::vector<std::int64_t>(400, 2000)), 65536).items().size() == 13);  // 32 tensors fit in each
    CHECK(plan(views({0, 0}), 16).items().empty());
    CHECK(plan(views({65536 * 3 + 1}), 65536).items().size() == 4);
    CHECK(plan(views(std::vector<std::int64_t>(1000, 0)), 1).elements() == 0);
  }

  TEST_CASE("A4 more tensors and chunks than any launch limit are planned, each tensor keeps its index") {
    CHECK(covers(views(std::vector<std::int64_t>(5000, 3)), 2));
    CHECK(covers(views({1000000}), 1));
  }

  TEST_CASE("A4 B35 sizes beyond 2^32 are counted in 64 bits") {
    constexpr std::int64_t huge = (std::int64_t{1} << 32) + 1;
    const auto list = views({huge, 5, huge});
    const plan p(list, 65536);
    CHECK(p.elements() == 2 * huge + 5);
    CHECK(p.items().size() == 65537 + 1 + 65537);
    CHECK(p.items()[65536].offset == huge - 1);
    CHECK(p.items()[65536].length == 1);
    CHECK(p.items().back().tensor == 2);
    CHECK(p.items().back().offset == huge - 1);
    CHECK(covers(list, 65536));
    CHECK(covers(list, std::int64_t{1} << 31));
    CHECK(covers(list, std::int64_t{1} << 40));
  }

  TEST_CASE("A2 a chunk size below 1 is refused") {
    CHECK_THROWS_WITH_AS(plan(views({1}), 0), doctest::Contains("chunk size is 0"), amp::error);
    CHECK_THROWS_AS(plan(views({}), -5), amp::error);
  }
}
