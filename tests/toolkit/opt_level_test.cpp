#include <doctest/doctest.h>

#include <amp/opt_level.hpp>
#include <string>
#include <vector>

using amp::dtype;
using amp::OptLevel;

namespace {
/// Text of the error that a call throws, or "nothing".
template <class F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const amp::error& e) {
    return e.what();
  }
  return "nothing";
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
/// The level that the run-time choice instantiates.
OptLevel chosen(std::string_view name, const amp::opt_level_overrides& o) {
  OptLevel level{};
  amp::with_opt_level(name, o, [&]<OptLevel L>() { level = L; });
  return level;
}
}  // namespace

TEST_SUITE("toolkit/opt_level") {
  TEST_CASE("the levels have apex's properties") {
    static_assert(amp::O0.compute == dtype::fp32 && amp::O0.cast == amp::casting::none && !amp::O0.master_weights);
    static_assert(amp::O0.scale == amp::scaling::none && amp::O3.scale == amp::scaling::none);
    static_assert(amp::O1.cast == amp::casting::op && amp::O1.scale == amp::scaling::dynamic &&
                  !amp::O1.master_weights);
    static_assert(amp::O2.compute == dtype::fp16 && amp::O2.fp32_norms && amp::O2.master_weights);
    static_assert(amp::O2.scale == amp::scaling::dynamic);
    static_assert(amp::O3.compute == dtype::fp16 && !amp::O3.fp32_norms && !amp::O3.master_weights);
    static_assert(amp::O2_bf16 == amp::O2.with(dtype::bf16).with(amp::scaling::none));
    static_assert(amp::O1_bf16.compute == dtype::bf16 && amp::O1_bf16.scale == amp::scaling::none);
    static_assert(amp::coherent<amp::O0>() && amp::coherent<amp::O1>() && amp::coherent<amp::O2>() &&
                  amp::coherent<amp::O3>() && amp::coherent<amp::O1_bf16>() && amp::coherent<amp::O2_bf16>() &&
                  amp::coherent<amp::O3_bf16>());
    CHECK(amp::incoherence(amp::O2).empty());
  }
  TEST_CASE("a level is found by its name in any case") {
    CHECK(amp::parse_opt_level("O2") == amp::O2);
    CHECK(amp::parse_opt_level("o2") == amp::O2);
    CHECK(amp::parse_opt_level("o1_BF16") == amp::O1_bf16);
    CHECK(amp::parse_opt_level("O3-bf16") == amp::O3_bf16);
  }
  TEST_CASE("an unknown name is refused with the known ones listed") {
    for (const char* name : {"O4", "", "2", "O2 ", "02"}) {
      const auto text = refusal([&] { (void)amp::parse_opt_level(name); });
      CHECK_MESSAGE(has(text, "known are O0, O1, O2, O3, O1_bf16, O2_bf16, O3_bf16"), text);
      CHECK(has(text, "opt_level_test.cpp"));
    }
  }
  TEST_CASE("loss_scale is dynamic or a positive number, also as a text") {
    CHECK(amp::parse_loss_scale("dynamic") == amp::loss_scale_setting{.dynamic = true});
    CHECK(amp::parse_loss_scale("Dynamic").dynamic);
    CHECK(amp::parse_loss_scale("128.0") == amp::loss_scale_setting{.dynamic = false, .value = 128.f});
    CHECK(amp::parse_loss_scale("1").value == 1.f);
    for (const char* text : {"", "0", "-1", "inf", "nan", "12x", "fast", "1e99"})
      CHECK_THROWS_AS((void)amp::parse_loss_scale(text), amp::error);
  }
  TEST_CASE("B16 keep_batchnorm_fp32 is True or False in any case, and nothing else") {
    CHECK(amp::parse_keep_batchnorm_fp32("True"));
    CHECK_FALSE(amp::parse_keep_batchnorm_fp32("False"));
    CHECK(amp::parse_keep_batchnorm_fp32("true"));
    for (const char* text : {"", "1", "yes", "Truee"})
      CHECK_THROWS_AS((void)amp::parse_keep_batchnorm_fp32(text), amp::error);
  }
  TEST_CASE("B16 keep_batchnorm_fp32 is refused in words at O0 and O1, and taken at O2 and O3, whatever its value") {
    for (const bool value : {true, false}) {
      for (const char* name : {"O0", "O1", "O1_bf16"}) {
        const auto text = refusal([&] { (void)chosen(name, {.keep_batchnorm_fp32 = value}); });
        CHECK_MESSAGE(has(text, "keep_batchnorm_fp32 has nothing to keep; start from O2"), text);
      }
      CHECK(chosen("O2", {.keep_batchnorm_fp32 = value}).fp32_norms == value);
      CHECK(chosen("O3", {.keep_batchnorm_fp32 = value}).fp32_norms == value);
    }
  }
  TEST_CASE("the run-time check says the sentences of the compile-time check") {
    CHECK(has(refusal([] { (void)chosen("O1", {.master_weights = true}); }),
              "per-op casting (O1) keeps fp32 weights, so master_weights has nothing to copy; start from O2"));
    CHECK(has(refusal([] { (void)chosen("O0", {.compute = dtype::fp16}); }),
              "O0 computes in fp32; start from O1, O2 or O3 to use a lower precision"));
    CHECK(has(refusal([] { (void)chosen("O2", {.compute = dtype::fp32}); }),
              "O1, O2 and O3 compute in fp16 or bf16; start from O0 to compute in fp32"));
  }
  TEST_CASE("the run-time choice instantiates the level of that name") {
    for (const auto& [name, level] : amp::detail::named_levels) {
      OptLevel seen{};
      amp::with_opt_level(name, [&]<OptLevel L>() { seen = L; });
      CHECK(seen == level);
    }
    CHECK_THROWS_AS(amp::with_opt_level("O9", []<OptLevel L>() { (void)L; }), amp::error);
  }
  TEST_CASE("overrides choose among the variants, what is unset keeps the level's default") {
    CHECK(chosen("O2", {}) == amp::O2);
    CHECK(chosen("O2", {.compute = dtype::bf16}) == amp::O2_bf16);
    CHECK(chosen("O1", {.compute = dtype::bf16}) == amp::O1_bf16);
    CHECK(chosen("O2_bf16", {.compute = dtype::fp16}) == amp::O2);
    CHECK_FALSE(chosen("O2", {.master_weights = false}).master_weights);
    CHECK(chosen("O2", {.master_weights = false}).fp32_norms);
  }
  TEST_CASE("enabled=false instantiates the plain fp32 run") {
    const OptLevel level = chosen("O2", {.enabled = false});
    CHECK_FALSE(level.enabled);
    CHECK(level.compute == dtype::fp32);
  }
}
