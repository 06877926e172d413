#include <doctest/doctest.h>

#include <amp/opt_level.hpp>
#include <optional>
#include <string>
#include <string_view>
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
  TEST_CASE("L1 every level has the properties of apex's table, those of the bf16 levels besides") {
    struct Row {
      OptLevel level;
      amp::level_properties want;
    };
    const std::optional<dtype> low = dtype::fp16, bf = dtype::bf16, full = dtype::fp32;
    const Row table[] = {
        {amp::O0, {true, full, false, {}, false, false}},      {amp::O1, {true, {}, true, {}, {}, true}},
        {amp::O2, {true, low, false, true, true, true}},       {amp::O3, {true, low, false, false, false, false}},
        {amp::O1_bf16, {true, {}, true, {}, {}, false}},       {amp::O2_bf16, {true, bf, false, true, true, false}},
        {amp::O3_bf16, {true, bf, false, false, false, false}}};
    for (const auto& [level, want] : table) CHECK(amp::properties(level) == want);
    CHECK(amp::properties(amp::O2_bf16.with(amp::fp8::hybrid)) == amp::properties(amp::O2_bf16));
  }
  TEST_CASE("L1 every property can be set otherwise") {
    static_assert(amp::O2.with_master_weights(false) == amp::O3.with_fp32_norms(true).with(amp::scaling::dynamic));
    static_assert(amp::O1.with_patch_functions(false).with(amp::scaling::none) == amp::O0);
    static_assert(amp::O2.with_cast_model_type(dtype::bf16).compute == dtype::bf16);
    static_assert(amp::O1.with_cast_model_type(dtype::fp32) == amp::O1);
    static_assert(!amp::O2.with_enabled(false).enabled);
    static_assert(amp::O2.with(amp::scaling::hysteresis).scale == amp::scaling::hysteresis);
    static_assert(amp::O1_bf16.with(amp::fp8::mxfp8).gemm == amp::fp8::recipe::mxfp8);
    static_assert(amp::coherent<amp::O1_bf16.with(amp::fp8::hybrid)>() &&
                  amp::coherent<amp::O2_bf16.with(amp::fp8::nvfp4)>());
    CHECK(amp::incoherence(amp::O3.with_fp32_norms(true)).empty());
  }
  TEST_CASE("L1 the levels have apex's types, casts and policies") {
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
  TEST_CASE("L2 a level is found by its name in any case") {
    CHECK(amp::parse_opt_level("O2") == amp::O2);
    CHECK(amp::parse_opt_level("o2") == amp::O2);
    CHECK(amp::parse_opt_level("o1_BF16") == amp::O1_bf16);
    CHECK(amp::parse_opt_level("O3-bf16") == amp::O3_bf16);
  }
  TEST_CASE("L2 an unknown name is refused with the known ones listed") {
    for (const char* name : {"O4", "", "2", "O2 ", "02"}) {
      const auto text = refusal([&] { (void)amp::parse_opt_level(name); });
      CHECK_MESSAGE(has(text, "known are O0, O1, O2, O3, O1_bf16, O2_bf16, O3_bf16"), text);
      CHECK(has(text, "opt_level_test.cpp"));
    }
  }
  TEST_CASE("L3 loss_scale is dynamic or a positive number, also as a text") {
    CHECK(amp::parse_loss_scale("dynamic") == amp::loss_scale_setting{.dynamic = true});
    CHECK(amp::parse_loss_scale("Dynamic").dynamic);
    CHECK(amp::parse_loss_scale("128.0") == amp::loss_scale_setting{.dynamic = false, .value = 128.f});
    CHECK(amp::parse_loss_scale("1").value == 1.f);
    for (const char* text : {"", "0", "-1", "inf", "nan", "12x", "fast", "1e99"})
      CHECK_THROWS_AS((void)amp::parse_loss_scale(text), amp::error);
  }
  TEST_CASE("B16 L3 keep_batchnorm_fp32 is True or False in any case, and nothing else") {
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
  TEST_CASE("L2 the run-time check says the sentences of the compile-time check") {
    CHECK(has(refusal([] { (void)chosen("O1", {.master_weights = true}); }),
              "per-op casting (O1) keeps fp32 weights, so master_weights has nothing to copy; start from O2"));
    CHECK(has(refusal([] { (void)chosen("O0", {.compute = dtype::fp16}); }),
              "O0 computes in fp32; start from O1, O2 or O3 to use a lower precision"));
    CHECK(has(refusal([] { (void)chosen("O2", {.compute = dtype::fp32}); }),
              "O1, O2 and O3 compute in fp16 or bf16; start from O0 to compute in fp32"));
  }
  TEST_CASE("L2 patch_functions and cast_model_type are refused at run time where they are at compile time") {
    const auto said = [](const char* name, const amp::opt_level_overrides& o) {
      return refusal([&] { (void)chosen(name, o); });
    };
    const char* both = "patch_functions is for O1 and cast_model_type for O2 and O3, a level has one of them";
    CHECK(has(said("O1", {.cast_model_type = dtype::fp16}), both));
    CHECK(has(said("O1_bf16", {.cast_model_type = dtype::bf16}), both));
    CHECK(has(said("O2", {.patch_functions = true}), both));
    CHECK(has(said("O3", {.patch_functions = true}), both));
    CHECK(has(said("O0", {.patch_functions = true}), "patch_functions (O1) casts to fp16 or bf16"));
    CHECK(has(said("O0", {.cast_model_type = dtype::fp16}), "O0 computes in fp32"));
    CHECK(has(said("O2", {.cast_model_type = dtype::e4m3}), "fp8 is a GEMM operand format"));
    CHECK(chosen("O1", {.cast_model_type = dtype::fp32}) == amp::O1);
    CHECK(chosen("O1", {.patch_functions = true}) == amp::O1);
    CHECK(chosen("O2", {.cast_model_type = dtype::bf16}) == amp::O2_bf16);
    CHECK(chosen("O1", {.patch_functions = false}).compute == dtype::fp32);
  }
  TEST_CASE("L3 a loss_scale override chooses the kind of policy") {
    const auto scale = [](const char* text) {
      const auto setting = amp::parse_loss_scale(text);
      return amp::apply_overrides(amp::O2, {.loss_scale = setting}).scale;
    };
    CHECK(scale("dynamic") == amp::scaling::dynamic);
    CHECK(scale("128.0") == amp::scaling::constant);
    CHECK(scale("1.0") == amp::scaling::constant);
  }
  TEST_CASE("L2 a level that with_opt_level does not instantiate is told") {
    CHECK(has(refusal([] { amp::with_opt_level(amp::O2_bf16.with(amp::fp8::hybrid), []<OptLevel L>() { (void)L; }); }),
              "name it at compile time"));
  }
  TEST_CASE("L2 the run-time choice instantiates the level of that name") {
    for (const auto& [name, level] : amp::detail::named_levels) {
      OptLevel seen{};
      amp::with_opt_level(name, [&]<OptLevel L>() { seen = L; });
      CHECK(seen == level);
    }
    CHECK_THROWS_AS(amp::with_opt_level("O9", []<OptLevel L>() { (void)L; }), amp::error);
  }
  TEST_CASE("L3 the run-time choice takes any level that is disabled, as the plain fp32 run") {
    for (const auto& [name, level] : amp::detail::named_levels) {
      OptLevel seen{};
      amp::with_opt_level(level.with_enabled(false), [&]<OptLevel L>() { seen = L; });
      CHECK(seen == amp::O0.with_enabled(false));
    }
  }
  TEST_CASE("L3 overrides choose among the variants, what is unset keeps the level's default") {
    CHECK(chosen("O2", {}) == amp::O2);
    CHECK(chosen("O2", {.compute = dtype::bf16}) == amp::O2_bf16);
    CHECK(chosen("O1", {.compute = dtype::bf16}) == amp::O1_bf16);
    CHECK(chosen("O2_bf16", {.compute = dtype::fp16}) == amp::O2);
    CHECK_FALSE(chosen("O2", {.master_weights = false}).master_weights);
    CHECK(chosen("O2", {.master_weights = false}).fp32_norms);
  }
  TEST_CASE("L3 enabled=false instantiates the plain fp32 run") {
    const OptLevel level = chosen("O2", {.enabled = false});
    CHECK_FALSE(level.enabled);
    CHECK(level.compute == dtype::fp32);
  }
}
