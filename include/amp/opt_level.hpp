/// Optimisation levels as compile-time values, and their choice at run time.
#pragma once
#include <amp/core/check.hpp>
#include <amp/core/dtype.hpp>
#include <amp/core/fp8_recipe.hpp>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace amp {

/// What is cast: nothing (O0), the arguments of each operation (O1), the whole model (O2, O3). `both` is what
/// contradicting properties ask for, and is refused.
enum class casting : std::uint8_t { none, op, model, both };
/// The level's loss-scale policy: NoScale, StaticScale, DynamicScale (apex), TorchScale, HysteresisScale.
enum class scaling : std::uint8_t { none, constant, dynamic, torch, hysteresis };

namespace detail {
template <class Level, class T>
[[nodiscard]] constexpr Level changed(Level level, T Level::*property, T value) {
  level.*property = value;
  return level;
}
}  // namespace detail

/// A level is structural, so it can be a template argument: `initialize<O2.with(dtype::bf16)>`.
struct OptLevel {
  dtype compute;  ///< format of the forward and backward pass
  casting cast;
  bool fp32_norms;      ///< batch norms keep fp32 parameters and statistics (apex keep_batchnorm_fp32)
  bool master_weights;  ///< the optimizer steps fp32 copies of low parameters
  scaling scale;
  bool enabled = true;                   ///< false: every call of the toolkit does nothing and step is the plain step
  fp8::recipe gemm = fp8::recipe::none;  ///< how GEMM operands are quantised besides

  [[nodiscard]] constexpr OptLevel with(dtype d) const { return detail::changed(*this, &OptLevel::compute, d); }
  [[nodiscard]] constexpr OptLevel with(scaling s) const { return detail::changed(*this, &OptLevel::scale, s); }
  [[nodiscard]] constexpr OptLevel with(casting c) const { return detail::changed(*this, &OptLevel::cast, c); }
  [[nodiscard]] constexpr OptLevel with(fp8::recipe r) const { return detail::changed(*this, &OptLevel::gemm, r); }
  [[nodiscard]] constexpr OptLevel with_master_weights(bool on) const {
    return detail::changed(*this, &OptLevel::master_weights, on);
  }
  [[nodiscard]] constexpr OptLevel with_fp32_norms(bool on) const {
    return detail::changed(*this, &OptLevel::fp32_norms, on);
  }
  [[nodiscard]] constexpr OptLevel with_enabled(bool on) const {
    return detail::changed(*this, &OptLevel::enabled, on);
  }
  /// apex's patch_torch_functions: casts per operation, which is O1's way and no other level's.
  [[nodiscard]] constexpr OptLevel with_patch_functions(bool on) const {
    if (on) return cast == casting::model ? with(casting::both) : with(casting::op);
    return cast == casting::op ? with(casting::none).with(dtype::fp32) : *this;
  }
  /// apex's cast_model_type: the format of the whole model, which O1 leaves in fp32.
  [[nodiscard]] constexpr OptLevel with_cast_model_type(dtype d) const {
    if (cast == casting::op) return d == dtype::fp32 ? *this : with(casting::both);
    return with(d);
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

/// A level in the words of apex's Properties; empty where the level leaves one unset.
struct level_properties {
  bool enabled;
  std::optional<dtype> cast_model_type;
  bool patch_functions;
  std::optional<bool> keep_batchnorm_fp32, master_weights;
  bool dynamic_loss_scale;  ///< false: a constant, 1 unless the run says otherwise
  friend bool operator==(const level_properties&, const level_properties&) = default;
};
[[nodiscard]] constexpr level_properties properties(const OptLevel& l) noexcept {
  const bool per_op = l.cast == casting::op, model = l.cast == casting::model;
  level_properties p{l.enabled, {}, per_op, {}, {}, l.scale >= scaling::dynamic};
  if (!per_op) p.cast_model_type = l.compute, p.master_weights = l.master_weights;
  if (model) p.keep_batchnorm_fp32 = l.fp32_norms;
  return p;
}

/// The first thing wrong with a level, or an empty text. One rule for the compile-time and the run-time check.
[[nodiscard]] constexpr std::string_view incoherence(const OptLevel& l) noexcept {
  if (l.cast == casting::both)
    return "patch_functions is for O1 and cast_model_type for O2 and O3, a level has one of them; start from O1 or O2";
  if (l.compute > dtype::bf16)
    return "fp8 is a GEMM operand format, weights are not stored in it; use O2_bf16.with(fp8::hybrid)";
  if (l.cast == casting::none && l.compute != dtype::fp32)
    return "O0 computes in fp32; start from O1, O2 or O3 to use a lower precision";
  if (l.cast == casting::none && l.master_weights)
    return "O0 keeps fp32 weights, so master_weights has nothing to copy; start from O2";
  if (l.cast == casting::none && l.fp32_norms)
    return "O0 keeps fp32 weights, so keep_batchnorm_fp32 has nothing to keep; start from O2";
  if (l.cast == casting::op && l.compute == dtype::fp32)
    return "patch_functions (O1) casts to fp16 or bf16; start from O1, or from O0 to compute in fp32";
  if (l.cast == casting::model && l.compute == dtype::fp32)
    return "O1, O2 and O3 compute in fp16 or bf16; start from O0 to compute in fp32";
  if (l.cast == casting::op && l.master_weights)
    return "per-op casting (O1) keeps fp32 weights, so master_weights has nothing to copy; start from O2";
  if (l.cast == casting::op && l.fp32_norms)
    return "per-op casting (O1) keeps fp32 weights, so keep_batchnorm_fp32 has nothing to keep; start from O2";
  if (l.gemm != fp8::recipe::none && l.compute != dtype::bf16)
    return "an fp8 recipe quantises the operands of a bf16 level; start from O1_bf16 or O2_bf16";
  return {};
}

/// Stops the compiler with a sentence if the properties of a level contradict one another.
template <OptLevel L>
consteval bool coherent() {
  constexpr std::string_view wrong = incoherence(L);
  static_assert(!wrong.starts_with("patch_functions is for O1"),
                "amp: patch_functions is for O1 and cast_model_type for O2 and O3, a level has one of them; start from "
                "O1 or O2");
  static_assert(!wrong.starts_with("fp8 is a GEMM operand"),
                "amp: fp8 is a GEMM operand format, weights are not stored in it; use O2_bf16.with(fp8::hybrid)");
  static_assert(!wrong.starts_with("O0 computes"),
                "amp: O0 computes in fp32; start from O1, O2 or O3 to use a lower precision");
  static_assert(!wrong.starts_with("O0 keeps fp32 weights, so master_weights"),
                "amp: O0 keeps fp32 weights, so master_weights has nothing to copy; start from O2");
  static_assert(!wrong.starts_with("O0 keeps fp32 weights, so keep_batchnorm_fp32"),
                "amp: O0 keeps fp32 weights, so keep_batchnorm_fp32 has nothing to keep; start from O2");
  static_assert(!wrong.starts_with("patch_functions (O1)"),
                "amp: patch_functions (O1) casts to fp16 or bf16; start from O1, or from O0 to compute in fp32");
  static_assert(!wrong.starts_with("O1, O2 and O3"),
                "amp: O1, O2 and O3 compute in fp16 or bf16; start from O0 to compute in fp32");
  static_assert(!wrong.starts_with("per-op casting (O1) keeps fp32 weights, so master_weights"),
                "amp: per-op casting (O1) keeps fp32 weights, so master_weights has nothing to copy; start from O2");
  static_assert(
      !wrong.starts_with("per-op casting (O1) keeps fp32 weights, so keep_batchnorm_fp32"),
      "amp: per-op casting (O1) keeps fp32 weights, so keep_batchnorm_fp32 has nothing to keep; start from O2");
  static_assert(!wrong.starts_with("an fp8 recipe"),
                "amp: an fp8 recipe quantises the operands of a bf16 level; start from O1_bf16 or O2_bf16");
  return wrong.empty();
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
  std::optional<dtype> compute{};  ///< the type of the model at O2 and O3, of the low operations at O1
  std::optional<bool> keep_batchnorm_fp32{};
  std::optional<bool> master_weights{};
  std::optional<bool> enabled{};
  std::optional<dtype> cast_model_type{};  ///< apex's: as `compute`, but refused at O1 unless fp32
  std::optional<bool> patch_functions{};
  std::optional<loss_scale_setting> loss_scale{};  ///< which kind; the number itself goes into the policy
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
  if (o.cast_model_type && level.cast != casting::op && *o.cast_model_type != level.compute) {
    opt_level_overrides as_compute{};
    as_compute.compute = o.cast_model_type;
    level = apply_overrides(level, as_compute, at);
  } else if (o.cast_model_type) {
    level = level.with_cast_model_type(*o.cast_model_type);
  }
  if (o.patch_functions) level = level.with_patch_functions(*o.patch_functions);
  if (o.loss_scale) level.scale = o.loss_scale->dynamic ? scaling::dynamic : scaling::constant;
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
using plain_levels = levels<O0, O1, O2, O3, O1_bf16, O2_bf16, O3_bf16, O0.with_enabled(false)>;
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

/// Calls `f.template operator()<L>()` with the level chosen at run time: one of the seven named ones, or
/// `O0.with_enabled(false)` for any that is disabled.
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
