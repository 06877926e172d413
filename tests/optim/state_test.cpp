#include <doctest/doctest.h>

#include <amp/optim/state.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

using amp::dtype;
using amp::StateDict;

TEST_SUITE("optim/state") {
  TEST_CASE("values come back bit for bit, NaN payloads and signed zeros too") {
    StateDict state;
    const std::vector<float> x{1.5f, -0.f, std::numeric_limits<float>::infinity(), std::nanf("7")};
    amp::save_values<float>(state, "x", x, {2, 2});
    amp::save_value<double>(state, "lr", 0.1);
    amp::save_value<std::int64_t>(state, "step", std::int64_t{1} << 40);
    std::vector<float> y(4);
    amp::load_values<float>(state, "x", y);
    for (std::size_t i = 0; i < 4; ++i)
      CHECK(__builtin_bit_cast(std::uint32_t, y[i]) == __builtin_bit_cast(std::uint32_t, x[i]));
    CHECK(amp::load_value<double>(state, "lr") == 0.1);
    CHECK(amp::load_value<std::int64_t>(state, "step") == std::int64_t{1} << 40);
    CHECK(state.at("x").shape == std::vector<std::int64_t>{2, 2});
    CHECK(state.at("x").type == "F32");
    amp::save_values<float>(state, "none", {}, {0});
    amp::load_values<float>(state, "none", {});
  }
  TEST_CASE("an entry that is missing, of another type or size is named with what is wanted") {
    StateDict state;
    amp::save_value<double>(state, "lr", 0.1);
    CHECK_THROWS_WITH_AS((void)amp::load_value<double>(state, "rate"), doctest::Contains("lacks \"rate\""), amp::error);
    CHECK_THROWS_WITH_AS((void)amp::load_value<float>(state, "lr"), doctest::Contains("8 bytes of F64"), amp::error);
    std::vector<double> two(2);
    CHECK_THROWS_WITH_AS(amp::load_values<double>(state, "lr", two), doctest::Contains("16 bytes of F64 are wanted"),
                         amp::error);
  }
  TEST_CASE("every storage format has a name of its own, and no other name is one") {
    for (const dtype t :
         {dtype::fp32, dtype::fp16, dtype::bf16, dtype::e4m3, dtype::e5m2, dtype::e4m3fnuz, dtype::e5m2fnuz})
      CHECK(amp::saved_dtype(amp::saved_name(t)) == t);
    CHECK(amp::saved_name(dtype::e4m3) == "F8_E4M3");
    CHECK(amp::saved_name(static_cast<dtype>(99)).empty());
    for (const char* other : {"F64", "I64", "f32", ""}) CHECK_FALSE(amp::saved_dtype(other).has_value());
  }
}
