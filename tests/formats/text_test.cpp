#include <doctest/doctest.h>

#include <amp/formats/text.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>

#include "formats/reference.hpp"

TEST_SUITE("formats/text") {
  TEST_CASE_TEMPLATE("N11 every pattern prints as a short decimal that reads back as the same value", T, amp::half,
                     amp::bfloat16, amp::e4m3, amp::e5m2, amp::e4m3fnuz, amp::e2m1) {
    const unsigned patterns = 1u << (1 + amp::half_traits<T>::exponent_bits + amp::half_traits<T>::mantissa_bits);
    unsigned wrong = 0;
    for (unsigned p = 0; p<patterns; p += patterns> 256 ? 7 : 1) {
      const T x = T::from_bits(static_cast<typename T::storage_type>(p));
      const std::string text = amp::to_string(x);
      if (std::isfinite(float(x))) wrong += T(std::stod(text)).bits() == p ? 0 : 1;
    }
    CHECK(wrong == 0);
  }

  TEST_CASE("N11 numbers print shortly, what is no number by name, and a stream prints the float") {
    using namespace amp::literals;
    CHECK(amp::to_string(0.1_h) == "0.1");
    CHECK(amp::to_string(65504_h) == "65504");
    CHECK(amp::to_string(-1.5_bf16) == "-1.5");
    CHECK(amp::to_string(amp::e4m3(448.f)) == "448");
    CHECK(amp::to_string(std::numeric_limits<amp::half>::infinity()) == "inf");
    CHECK(amp::to_string(std::numeric_limits<amp::e5m2>::quiet_NaN()) == "nan");
    CHECK(amp::to_string(std::numeric_limits<amp::bfloat16>::max()) == "3.39e+38");
    CHECK(amp::to_string(amp::half(-0.f)) == "-0");
    char small[2];
    CHECK(amp::to_chars(small, small + 1, 0.125_h).ec == std::errc::value_too_large);
    std::ostringstream out;
    out << 0.5_h << ' ' << amp::e5m2(3.f);
    CHECK(out.str() == "0.5 3");
  }

  TEST_CASE("N6 literals round once, at compile time") {
    using namespace amp::literals;
    static_assert((1.5_h).bits() == 0x3e00 && (2_bf16).bits() == 0x4000);
    static_assert((65520_h).bits() == 0x7c00);
    CHECK((-0.1_bf16).bits() == amp::bfloat16(-0.1).bits());
  }
}
