#include <doctest/doctest.h>

#include <amp/core/dtype.hpp>
#include <cstddef>
#include <string_view>

TEST_SUITE("core/dtype") {
  TEST_CASE("every format has a name and a size, and a foreign value is not known") {
    static_assert(amp::name(amp::dtype::fp32) == "fp32" && amp::size_of(amp::dtype::fp32) == 4);
    static_assert(amp::name(amp::dtype::fp16) == "fp16" && amp::size_of(amp::dtype::fp16) == 2);
    static_assert(amp::name(amp::dtype::bf16) == "bf16" && amp::size_of(amp::dtype::bf16) == 2);
    static_assert(amp::name(amp::dtype::e4m3) == "e4m3" && amp::size_of(amp::dtype::e4m3) == 1);
    static_assert(amp::name(amp::dtype::e5m2) == "e5m2" && amp::size_of(amp::dtype::e5m2) == 1);
    static_assert(amp::name(amp::dtype::e4m3fnuz) == "e4m3fnuz" && amp::size_of(amp::dtype::e4m3fnuz) == 1);
    static_assert(amp::name(amp::dtype::e5m2fnuz) == "e5m2fnuz" && amp::size_of(amp::dtype::e5m2fnuz) == 1);
    CHECK(amp::known(amp::dtype::bf16));
    CHECK(amp::known(amp::dtype::e5m2fnuz));
    CHECK_FALSE(amp::known(static_cast<amp::dtype>(static_cast<int>(amp::dtype::e5m2fnuz) + 1)));
    CHECK_FALSE(amp::known(static_cast<amp::dtype>(200)));
    CHECK(amp::name(static_cast<amp::dtype>(200)) == "unknown");
  }
  TEST_CASE("the names of a message are those of the formats, in order") {
    std::size_t at = 0;
    for (int i = 0; amp::known(static_cast<amp::dtype>(i)); ++i) {
      const auto found = amp::dtype_names.find(amp::name(static_cast<amp::dtype>(i)), at);
      REQUIRE(found != std::string_view::npos);
      CHECK(found >= at);
      at = found + 1;
    }
    CHECK(at > 0);
  }
}
