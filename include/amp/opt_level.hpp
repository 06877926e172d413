/// Optimisation levels as compile-time values, and their choice at run time.
#pragma once
#include <amp/core/check.hpp>
#include <amp/core/dtype.hpp>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace amp {

/// What is cast: nothing (O0), the arguments of each operation (O1), the whole model (O2, O3).
enum class casting : std::uint8_t { none, op, model };
/// The level's loss-scale policy: NoScale, StaticScale, DynamicScale (apex), TorchScale.
enum class scaling : std::uint8_t { none, constant, dynamic, torch };

/// A level is structural, so it can be a template argument: `initialize<O2.with(dtype::bf16)>`.
struct OptLevel {
  dtype compute;  ///< format of the forward and backward pass
  casting cast;
  bool fp32_norms;      ///< batch norms keep fp32 parameters and statistics (apex keep_batchnorm_fp32)
  bool master_weights;  ///< the optimizer steps fp32 copies of low parameters
  scaling scale;
  bool enabled = true;  ///< false: every call of the toolkit does nothing and step is the plain step

  [[nodiscard]] constexpr OptLevel with(dtype d) const {
    auto l = *this;
    l.compute = d;
    return l;
  }
  [[nodiscard]] constexpr OptLevel with(scaling s) const {
    auto l = *this;
    l.scale = s;
    return l;
  }
  [[nodiscard]] constexpr OptLevel with_master_weights(bool on) const {
    auto l = *this;
    l.master_weights = on;
    return l;
  }
  [[nodiscard]] constexpr OptLevel with_fp32_norms(bool on) const {
    auto l = *this;
    l.fp32_norms = on;
    return l;
  }
  [[nodiscard]] constexpr OptLevel with_enabled(bool on) const {
    auto l = *this;
    l.enabled = on;
    return l;
  }
  friend constexpr bool operator==(const OptLevel&, const OptLevel&) = default;
};

inline constexpr OptLevel O0{dtype::fp32, casting::none, false, false, scaling::none};
inline constexpr OptLevel O1{dtype::fp16, casting::op, false, false, scaling::dynamic};
inline constexpr OptLevel O2{dtype::fp16, casting::model, true, true, scaling::dynamic};
inline constexpr OptLevel O3{dtype::fp16, casting::model, false, false, scaling::none};
inline constexpr OptLevel O1_bf16 = O1.with(dtype::bf16).with(scaling::none);
inline constexpr OptLevel O2_bf16 = O2.with(dtype::bf16).with(scaling::none);
inline constexpr OptLevel O3_bf16 = O3.with(dtype::bf16);

/// The first thing wrong with a level, or an empty text. One rule for the compile-time and the run-time check.
[[nodiscard]] constexpr std::string_view incoherence(const OptLevel& l) noexcept {
  if (l.cast == casting::none && l.compute != dtype::fp32)
    return "O0 computes in fp32; start from O1, O2 or O3 to use a lower precision";
  if (l.cast == casting::none && l.master_weights)
    return "O0 keeps fp32 weights, so master_weights has nothing to copy; start from O2";
  if (l.cast == casting::none && l.fp32_norms)
    return "O0 keeps fp32 weights, so keep_batchnorm_fp32 has nothing to keep; start from O2";
  if (l.cast != casting::none && l.compute == dtype::fp32)
    return "O1, O2 and O3 compute in fp16 or bf16; start from O0 to compute in fp32";
  if (l.cast == casting::op && l.master_weights)
    return "per-op casting (O1) keeps fp32 weights, so master_weights has nothing to copy; start from O2";
  if (l.cast == casting::op && l.fp32_norms)
    return "per-op casting (O1) keeps fp32 weights, so keep_batchnorm_fp32 has nothing to keep; start from O2";
  return {};
}

/// Stops the compiler with a sentence if the properties of a level contradict one another.
template <OptLevel L>
consteval bool coherent() {
  static_assert(!(L.cast == casting::none && L.compute != dtype::fp32),
                "amp: O0 computes in fp32; start from O1, O2 or O3 to use a lower precision");
  static_assert(!(L.cast == casting::none && L.master_weights),
                "amp: O0 keeps fp32 weights, so master_weights has nothing to copy; start from O2");
  static_assert(!(L.cast == casting::none && L.fp32_norms),
                "amp: O0 keeps fp32 weights, so keep_batchnorm_fp32 has nothing to keep; start from O2");
  static_assert(!(L.cast != casting::none && L.compute == dtype::fp32),
                "amp: O1, O2 and O3 compute in fp16 or bf16; start from O0 to compute in fp32");
  static_assert(!(L.cast == casting::op && L.master_weights),
                "amp: per-op casting (O1) keeps fp32 weights, so master_weights has nothing to copy; start from O2");
  static_assert(
      !(L.cast == casting::op && L.fp32_norms),
      "amp: per-op casting (O1) keeps fp32 weights, so keep_batchnorm_fp32 has nothing to keep; start from O2");
  return incoherence(L).empty();
}

namespace detail {
struct named_level {
  std::string_view name;
  OptLevel level;
};
inline constexpr std::array<named_level, 7> named_levels{
    {{"O0", O0}, {"O1", O1}, {"O2", O2}, {"O3", O3}, {"O1_bf16", O1_bf16}, {"O2_bf16", O2_bf16}, {"O3_bf16", O3_bf16}}};
constexpr char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c == '-' ? '_' : c;
}
constexpr bool same_word(std::string_view a, std::string_view b) noexcept {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (lower(a[i]) != lower(b[i])) return false;
  return true;
}
}  // namespace detail

/// The level of a name in any case: "O2", "o2", "O2_bf16", "o2-bf16".
/// throws  amp::error listing the known names
[[nodiscard]] inline OptLevel parse_opt_level(std::string_view name, where at = where::here()) {
  std::string known;
  for (const auto& [level_name, level] : detail::named_levels) {
    if (detail::same_word(level_name, name)) return level;
    known += (known.empty() ? "" : ", ") + std::string(level_name);
  }
  throw error("unknown opt_level \"" + std::string(name) + "\"; known are " + known, at);
}

/// A loss_scale setting: "dynamic" or a constant.
struct loss_scale_setting {
  bool dynamic = false;
  float value = 1.f;  ///< the constant; unused if dynamic
  friend bool operator==(const loss_scale_setting&, const loss_scale_setting&) = default;
};

/// Reads "dynamic" or a positive finite number, such as "128.0".
/// throws  amp::error for anything else
[[nodiscard]] inline loss_scale_setting parse_loss_scale(std::string_view text, where at = where::here()) {
  if (detail::same_word(text, "dynamic")) return {.dynamic = true};
  float value = 0.f;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = status == std::errc{} && end == text.data() + text.size();
  expects(
      whole && value > 0.f && value <= 0x1.fffffep127f,
      [&] { return "loss_scale \"" + std::string(text) + "\" is neither \"dynamic\" nor a positive number"; }, at);
  return {.dynamic = false, .value = value};
}

/// Reads "True" or "False" in any case.
/// throws  amp::error for anything else
[[nodiscard]] inline bool parse_keep_batchnorm_fp32(std::string_view text, where at = where::here()) {
  if (detail::same_word(text, "true")) return true;
  expects(
      detail::same_word(text, "false"),
      [&] { return "keep_batchnorm_fp32 \"" + std::string(text) + "\" is neither \"True\" nor \"False\""; }, at);
  return false;
}

/// Properties of a level that a run sets otherwise; what is left unset keeps the level's default.
struct opt_level_overrides {
  std::optional<dtype> compute{};  ///< cast_model_type of O2 and O3, the type of the low operations of O1
  std::optional<bool> keep_batchnorm_fp32{};
  std::optional<bool> master_weights{};
  std::optional<bool> enabled{};
};

/// A level with overrides, checked. Choosing bf16 for a level that scales dynamically switches scaling off, because
/// bf16 has fp32's exponent range; choosing fp16 for a bf16 level switches to the fp16 level's policy. throws
/// amp::error with the sentence of the compile-time check; setting keep_batchnorm_fp32 or master_weights at O0 or
///         O1 is refused even with the value false, as there is nothing that it could mean
[[nodiscard]] inline OptLevel apply_overrides(OptLevel level, const opt_level_overrides& o, where at = where::here()) {
  if (o.enabled) level.enabled = *o.enabled;
  if (o.compute && *o.compute != level.compute) {
    level.compute = *o.compute;
    if (level.cast == casting::op) level.scale = (*o.compute == dtype::bf16 ? O1_bf16 : O1).scale;
    if (level.cast == casting::model && level.master_weights)
      level.scale = (*o.compute == dtype::bf16 ? O2_bf16 : O2).scale;
  }
  const bool casts_model = level.cast == casting::model;
  if (o.keep_batchnorm_fp32) level.fp32_norms = *o.keep_batchnorm_fp32 || !casts_model;
  if (o.master_weights) level.master_weights = *o.master_weights || !casts_model;
  const std::string_view wrong = incoherence(level);
  expects(wrong.empty(), wrong, at);
  return level;
}

namespace detail {
template <OptLevel... L>
struct levels {};
using plain_levels = levels<O0, O1, O2, O3, O1_bf16, O2_bf16, O3_bf16>;
using all_levels = levels<O0, O1, O1_bf16, O2, O2_bf16, O2.with_fp32_norms(false), O2_bf16.with_fp32_norms(false), O3,
                          O3_bf16, O3.with_fp32_norms(true), O3_bf16.with_fp32_norms(true), O0.with_enabled(false)>;

template <OptLevel... L, class F>
void dispatch_level(levels<L...>, const OptLevel& wanted, F&& f, where at) {
  // The policy is left out: one chosen at run time is an AnyScale in init_options.
  const OptLevel target = wanted.enabled ? wanted : O0.with_enabled(false);
  const auto same = [&](const OptLevel& l) { return l.with(target.scale) == target; };
  const bool found = ((same(L) ? (f.template operator()<L>(), true) : false) || ...);
  expects(found, "this level is not among those that with_opt_level instantiates; name it at compile time", at);
}
}  // namespace detail

/// Calls `f.template operator()<L>()` with the level chosen at run time: one of the seven named ones.
/// Usage: `with_opt_level("o2", [&]<amp::OptLevel L>() { train<L>(config); });`
/// throws  amp::error for an unknown name, listing the known ones
template <class F>
void with_opt_level(const OptLevel& level, F&& f, where at = where::here()) {
  detail::dispatch_level(detail::plain_levels{}, level, f, at);
}
template <class F>
void with_opt_level(std::string_view name, F&& f, where at = where::here()) {
  with_opt_level(parse_opt_level(name, at), f, at);
}
/// The same with overrides: also O2 with low norms and O3 with fp32 ones are instantiated.
template <class F>
void with_opt_level(std::string_view name, const opt_level_overrides& overrides, F&& f, where at = where::here()) {
  detail::dispatch_level(detail::all_levels{}, apply_overrides(parse_opt_level(name, at), overrides, at), f, at);
}

}  // namespace amp
