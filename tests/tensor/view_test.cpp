#include <doctest/doctest.h>

#include <amp/tensor/view.hpp>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace foreign {
struct Half {
  std::uint16_t x;
};
struct Matrix {  // no contiguous range: it comes with view_traits
  float values[6];
  int rows = 2, columns = 3;
};
}  // namespace foreign
template <>
struct amp::format_of<foreign::Half> {
  using type = amp::half;
};
template <>
struct amp::view_traits<foreign::Matrix> {
  static amp::tensor_view view(foreign::Matrix& m) { return as_view(m.values, m.rows * m.columns, "matrix"); }
  static amp::tensor_view view(const foreign::Matrix& m) { return as_view(m.values, m.rows * m.columns, "matrix"); }
};

using amp::as_view;
using amp::dtype;

TEST_SUITE("tensor/view") {
  TEST_CASE("vectors, arrays, spans and pointers become views of their format, without a copy") {
    std::vector<float> floats(5);
    std::array<amp::bfloat16, 3> low{};
    const auto a = as_view(floats, "weights");
    CHECK(a.data == floats.data());
    CHECK(a.size == 5);
    CHECK(a.type == dtype::fp32);
    CHECK_FALSE(a.readonly);
    CHECK(a.name == "weights");
    CHECK(as_view(low).type == dtype::bf16);
    CHECK(as_view(std::span(floats).subspan(1)).data == floats.data() + 1);
    CHECK(as_view(floats.data(), 2).size == 2);
    const amp::tensor_view from_typed = amp::view<amp::half>{nullptr, 0, "none"};
    CHECK(from_typed.type == dtype::fp16);
  }

  TEST_CASE("const elements make a read-only view") {
    const std::vector<float> floats(5);
    CHECK(as_view(floats).readonly);
    CHECK(as_view(std::span<const float>(floats)).readonly);
    CHECK(as_view(floats.data(), 5).readonly);
    CHECK(as_view(floats).data == floats.data());
  }

  TEST_CASE("foreign element types are used in place, foreign tensor classes through view_traits") {
    std::vector<foreign::Half> halves(4);
    CHECK(as_view(halves).type == dtype::fp16);
    CHECK(as_view(halves).data == halves.data());
    foreign::Matrix matrix{};
    CHECK(as_view(matrix).size == 6);
    CHECK(as_view(matrix).data == matrix.values);
    CHECK(as_view(std::as_const(matrix)).readonly);
    static_assert(amp::Viewable<foreign::Matrix> && amp::Viewable<std::vector<float>>);
    static_assert(!amp::Viewable<int> && !amp::Viewable<std::vector<double>>);
  }
}
