#include <doctest/doctest.h>

#include <amp/session/choices.hpp>
#include <string>

#include "support/errors.hpp"

using test_support::has;
using test_support::message_of;

namespace {}  // namespace

TEST_SUITE("toolkit/choices") {
  TEST_CASE("L3 how masters and moments are stored is chosen by name, in any case") {
    CHECK(amp::parse_masters("Remainder") == amp::masters::remainder);
    CHECK(amp::parse_masters("none") == amp::masters::none);
    CHECK(amp::parse_moments("bf16") == amp::moment_formats{amp::dtype::bf16});
    CHECK(amp::parse_moments("e4m3,fp16") == amp::moment_formats{amp::dtype::e4m3, amp::dtype::fp16});
  }
  TEST_CASE("L3 recipes and policies are chosen by name") {
    CHECK(amp::parse_fp8_recipe("MXFP8") == amp::fp8::mxfp8);
    CHECK(amp::parse_fp8_recipe("none") == amp::fp8::none);
    CHECK(amp::parse_scaler("apex").as<amp::DynamicScale>() != nullptr);
    CHECK(amp::parse_scaler("torch").as<amp::TorchScale>() != nullptr);
    CHECK(amp::parse_scaler("hysteresis").as<amp::HysteresisScale>() != nullptr);
  }
  TEST_CASE("L2 an unknown name is refused with the setting and the known ones") {
    CHECK(has(message_of([] { (void)amp::parse_masters("fp8"); }),
              "master_weights \"fp8\" is not known; known are fp32, remainder, kahan, stochastic, fp16, none"));
    CHECK(has(message_of([] { (void)amp::parse_moments("e4m3,int8"); }), "optimizer_state \"int8\""));
    CHECK(has(message_of([] { (void)amp::parse_fp8_recipe(""); }), "fp8_recipe \"\""));
    CHECK(has(message_of([] { (void)amp::parse_scaler("static"); }), "known are apex, torch, hysteresis"));
  }
}
