/// Settings of a configuration as the toolkit's options: how state is stored, which policy moves the scale, which
/// recipe.
#pragma once
#include <amp/core/check.hpp>
#include <amp/core/dtype.hpp>
#include <amp/core/fp8_recipe.hpp>
#include <amp/opt_level.hpp>
#include <amp/optim/storage.hpp>
#include <amp/scaling/policies.hpp>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace amp {

namespace detail {
template <class T, std::size_t N>
[[nodiscard]] T choose(const char* setting, std::string_view text, const std::pair<std::string_view, T> (&choices)[N],
                       where at) {
  std::string known;
  for (const auto& [name, value] : choices) {
    if (same_word(name, text)) return value;
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  throw error(std::string(setting) + " \"" + std::string(text) + "\" is not known; known are " + known, at);
}
}  // namespace detail

/// "fp32", "remainder", "kahan", "stochastic", "fp16" or "none", in any case.
/// throws  amp::error listing the known ones
[[nodiscard]] inline masters parse_masters(std::string_view text, where at = where::here()) {
  static constexpr std::pair<std::string_view, masters> choices[] = {
      {"fp32", masters::fp32},   {"remainder", masters::remainder},
      {"kahan", masters::kahan}, {"stochastic", masters::stochastic},
      {"fp16", masters::fp16},   {"none", masters::none}};
  return detail::choose("master_weights", text, choices, at);
}

/// The formats of moments: "fp32", "bf16", "fp16", "e4m3" for all, or two of them, "e4m3,fp16", for the first and the
/// others.
/// throws  amp::error listing the known ones
[[nodiscard]] inline moment_formats parse_moments(std::string_view text, where at = where::here()) {
  static constexpr std::pair<std::string_view, dtype> choices[] = {{"fp32", dtype::fp32},
                                                                   {"bf16", dtype::bf16},
                                                                   {"fp16", dtype::fp16},
                                                                   {"e4m3", dtype::e4m3},
                                                                   {"e5m2", dtype::e5m2}};
  const auto comma = text.find(',');
  if (comma == std::string_view::npos) return detail::choose("optimizer_state", text, choices, at);
  return {detail::choose("optimizer_state", text.substr(0, comma), choices, at),
          detail::choose("optimizer_state", text.substr(comma + 1), choices, at)};
}

/// "none", "hybrid", "e4m3", "current", "block", "mxfp8" or "nvfp4".
/// throws  amp::error listing the known ones
[[nodiscard]] inline fp8::recipe parse_fp8_recipe(std::string_view text, where at = where::here()) {
  static constexpr std::pair<std::string_view, fp8::recipe> choices[] = {
      {"none", fp8::none},   {"hybrid", fp8::hybrid}, {"e4m3", fp8::e4m3},  {"current", fp8::current},
      {"block", fp8::block}, {"mxfp8", fp8::mxfp8},   {"nvfp4", fp8::nvfp4}};
  return detail::choose("fp8_recipe", text, choices, at);
}

/// A dynamic policy by its name, with its defaults: "apex", "torch" or "hysteresis".
/// throws  amp::error listing the known ones
[[nodiscard]] inline AnyScale parse_scaler(std::string_view text, where at = where::here()) {
  static constexpr std::pair<std::string_view, scaling> choices[] = {
      {"apex", scaling::dynamic}, {"torch", scaling::torch}, {"hysteresis", scaling::hysteresis}};
  const scaling kind = detail::choose("scaler", text, choices, at);
  if (kind == scaling::torch) return TorchScale{};
  return kind == scaling::dynamic ? AnyScale{DynamicScale{}} : AnyScale{HysteresisScale{}};
}

}  // namespace amp
