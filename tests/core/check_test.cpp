#include <doctest/doctest.h>

#include <amp/core/check.hpp>
#include <string>

TEST_SUITE("core/check") {
  TEST_CASE("X2 an error carries the message and the caller's place") {
    int line = 0;
    try {
      line = __LINE__ + 1;
      amp::expects(false, "list 2 is empty");
      FAIL("expects did not throw");
    } catch (const amp::error& e) {
      CHECK(std::string(e.what()).find("amp: list 2 is empty [") == 0);
      CHECK(std::string(e.what()).find("check_test.cpp:" + std::to_string(line)) != std::string::npos);
      CHECK(e.at().line == line);
    }
  }

  TEST_CASE("a message that is a callable is built only when it is needed") {
    int built = 0;
    const auto message = [&] {
      ++built;
      return std::string("late");
    };
    amp::expects(true, message);
    CHECK(built == 0);
    CHECK_THROWS_AS(amp::expects(false, message), amp::error);
    CHECK(built == 1);
  }
}
