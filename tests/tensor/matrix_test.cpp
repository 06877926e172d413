#include <doctest/doctest.h>

#include <amp/tensor/matrix.hpp>
#include <vector>

TEST_SUITE("tensor/matrix") {
  TEST_CASE("a matrix is its pointer, shape, stride and format, const data is read-only") {
    std::vector<amp::half> storage(20);
    const auto m = amp::as_matrix(storage.data(), 3, 4, 5, "weights");
    CHECK((m.rows == 3 && m.columns == 4 && m.stride == 5 && m.type == amp::dtype::fp16 && !m.readonly));
    CHECK((m.flat().size == 15 && m.flat().data == storage.data() && m.flat().name == "weights"));
    const std::vector<float> fixed(8);
    const auto dense = amp::as_matrix(fixed.data(), 2, 4);
    CHECK((dense.stride == 4 && dense.readonly));
  }
  TEST_CASE("a tensor becomes rows of a width, and of no width no rows") {
    std::vector<float> storage(12);
    const amp::tensor_view t = amp::as_view(storage);
    CHECK((amp::as_matrix(t, 3).rows == 4 && amp::as_matrix(t, 3).stride == 3));
    CHECK(amp::as_matrix(t, 0).rows == 0);
  }
  TEST_CASE("what does not fit is refused with its name and both shapes") {
    std::vector<float> storage(12);
    const auto m = amp::as_matrix(storage.data(), 3, 4);
    const auto refuses = [](const amp::matrix_view& view, bool written, const char* text) {
      CHECK_THROWS_WITH_AS(amp::expects_matrix(view, 3, 4, "x", written, amp::where::here()), doctest::Contains(text),
                           amp::error);
    };
    CHECK_NOTHROW(amp::expects_matrix(m, 3, 4, "x", true, amp::where::here()));
    refuses(amp::as_matrix(storage.data(), 4, 3), false, "x is 4 x 3, but 3 x 4 is needed");
    refuses({storage.data(), 3, 4, 3, amp::dtype::fp32, false, "rows of mine"}, false, "rows of mine has stride 3");
    refuses({storage.data(), 3, 4, 4, amp::dtype::fp32, true, {}}, true, "x is read-only");
    refuses({nullptr, 3, 4, 4, amp::dtype::fp32, false, {}}, false, "x has no data");
  }
}
