#include <doctest/doctest.h>

#include <amp/optim/stored.hpp>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

using amp::dtype;
using amp::scale_per;
using amp::detail::StateBuffer;
using amp::detail::StoredArray;
using amp::detail::StoredLayout;
using amp::detail::StoredList;

TEST_SUITE("optim/stored") {
  TEST_CASE("a buffer is zeroed, starts on a cache line, and a shift moves it by whole lines") {
    for (const int shift : {0, 1, 8}) {
      const StateBuffer buffer(1000, shift);
      CHECK(buffer.size() == 1000);
      CHECK_FALSE(buffer.empty());
      CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64 == 0);
      const auto* p = reinterpret_cast<const unsigned char*>(buffer.data());
      CHECK(std::accumulate(p, p + 1000, 0u) == 0u);
    }
    StateBuffer a(64);
    const auto* data = a.data();
    const StateBuffer b = std::move(a);
    CHECK(b.data() == data);
    CHECK(StateBuffer().empty());
  }
  TEST_CASE("tensors start on cache lines, or follow one another, and scales are counted per tensor or per block") {
    StoredLayout lines;
    for (const std::int64_t size : {3, 0, 17, 600}) lines.add(size);
    CHECK(lines.element == std::vector<std::int64_t>{0, 16, 16, 48});
    CHECK(lines.elements == 656);
    CHECK(lines.scales == 4);
    CHECK(lines.block() == 0);
    StoredLayout dense;
    dense.gaps = false, dense.per = scale_per::block;
    for (const std::int64_t size : {3, 0, 17, 600}) dense.add(size);
    CHECK(dense.element == std::vector<std::int64_t>{0, 3, 3, 20});
    CHECK(dense.scale == std::vector<std::int64_t>{0, 1, 1, 2});
    CHECK(dense.scales == 5);
    CHECK(dense.scale_count(0) == 0);
    CHECK(dense.scale_count(256) == 1);
    CHECK(dense.scale_count(257) == 2);
    CHECK(dense.block() == 256);
  }
  TEST_CASE("an array has scales of 1 for the formats that want them, and says what it takes") {
    StoredLayout layout;
    layout.add(16), layout.add(16);
    const StoredArray wide(dtype::fp32, layout, 0), low(dtype::bf16, layout, 0), half(dtype::fp16, layout, 0);
    CHECK(wide.bytes() == 128);
    CHECK(low.bytes() == 64);
    CHECK(half.bytes() == 72);
    CHECK(wide.scale(layout, 1) == nullptr);
    CHECK(half.scaled());
    CHECK(*half.scale(layout, 1) == 1.f);
    CHECK(half.view(layout, 1, 5, "b").data == static_cast<std::byte*>(half.view(layout, 0, 5, "a").data) + 32);
    CHECK(half.view(layout, 1, 5, "b").type == dtype::fp16);
    CHECK(StoredArray().empty());
  }
  TEST_CASE("scales of a list come from the peaks of a measuring pass and are taken after the storing one") {
    std::vector<amp::half> x(4);
    float scale = 1.f;
    StoredList list;
    list.add(amp::as_view(x), &scale);
    CHECK(list.needs_measuring(0));
    CHECK_FALSE(list.needs_measuring(256));
    const auto measuring = list.scales(0, false, amp::lane::pass::measure);
    measuring.peak[0] = __builtin_bit_cast(std::uint32_t, 2.f);
    list.find_next(false);
    CHECK(list.scales(0, false, amp::lane::pass::store).next[0] == 2.f / 32752.f);
    CHECK(scale == 1.f);
    list.take_next();
    CHECK(scale == 2.f / 32752.f);
    list.clear();
    CHECK(list.views.empty());
    CHECK(list.scales(0, false, amp::lane::pass::store).empty());
  }
  TEST_CASE("values of any size go in and out of a lane in pieces") {
    for (const std::size_t n : {0u, 1u, 511u, 512u, 513u, 1300u}) {
      std::vector<float> from(n), to(n, -1.f);
      std::iota(from.begin(), from.end(), 1.f);
      std::vector<float> tensor(n);
      const amp::tensor_view list[] = {amp::as_view(tensor)};
      amp::detail::write_floats(amp::lane::moments{list}, 0, from);
      amp::detail::read_floats(amp::lane::moments{list}, 0, to);
      CHECK(tensor == from);
      CHECK(to == from);
    }
  }
}
