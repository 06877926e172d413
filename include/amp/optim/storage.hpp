/// How an optimizer's state is stored: what keeps the bits that low weights lack, and in which formats moments lie.
#pragma once
#include <amp/core/check.hpp>
#include <amp/core/dtype.hpp>
#include <cstdint>
#include <string>

namespace amp {

/// What keeps the bits that a low weight lacks. Parameters in fp32 are stepped in place whatever is chosen.
/// Bytes a parameter, besides weight and gradient, with fp32 moments of Adam: 12, 10, 10, 8, 10, 8.
enum class masters : std::uint8_t {
  fp32,        ///< a copy in fp32
  remainder,   ///< the lower 16 bits of an fp32 master, whose upper half is the bf16 weight: the bits of `fp32`
  kahan,       ///< what rounding left of the weight, in bf16: nearly as good as `fp32`, fp16 weights too
  stochastic,  ///< nothing: a step rounds up or down at random, so that small updates count on average
  fp16,        ///< a copy in fp16 with a scale for each tensor
  none         ///< nothing: updates below half a unit of the weight are lost
};

/// The formats of moments: one for all, or one for the first (Adam's m) and one for the others (v). fp32 and bf16 are
/// stored as they are; fp16 and the 8-bit formats have scales that bring the largest magnitude to the format's range.
struct moment_formats {
  dtype first = dtype::fp32, others = dtype::fp32;

  constexpr moment_formats() = default;
  constexpr moment_formats(dtype all) : first(all), others(all) {}  // NOLINT(google-explicit-constructor): one for all
  constexpr moment_formats(dtype m, dtype v) : first(m), others(v) {}
  [[nodiscard]] constexpr dtype operator[](int k) const noexcept { return k == 0 ? first : others; }
  friend constexpr bool operator==(const moment_formats&, const moment_formats&) = default;
};

/// Whether a format is stored with scales.
[[nodiscard]] constexpr bool has_scale(dtype t) noexcept { return t != dtype::fp32 && t != dtype::bf16; }

/// How many values share a scale.
enum class scale_per : std::uint8_t {
  tensor,  ///< one scale a tensor; a step is two passes over the state, the first of which finds the peak
  block    ///< one scale for 256 neighbours; one pass
};

/// Options of MasterWeights: `MasterWeights<Adam> m(groups, {.masters = masters::remainder, .moments = dtype::bf16});`
/// source  Transformer Engine, FusedAdam (store_param_remainders, exp_avg_dtype)
struct storage_options {
  amp::masters masters = amp::masters::fp32;
  moment_formats moments = {};
  scale_per scales = scale_per::tensor;  ///< of moments and fp16 masters
  bool stochastic_moments = false;       ///< round low moments at random: slow averages then move in low formats
  bool stochastic_copies = false;        ///< low copies of fp32 masters are rounded at random, not to nearest
  bool flat = false;                     ///< fp32 masters of a group in one piece without gaps (`flat_masters`)
  bool low_stash = false;                ///< gradients put aside keep the parameter's format, at a common scale
  std::uint64_t seed = 0;                ///< of random rounding; a run with the same seed gives the same bits

  /// throws  amp::error for a combination that makes no sense
  void validate(where at = where::here()) const {
    expects(known(moments.first) && known(moments.others), "storage_options: moments have an unknown dtype", at);
    const auto drawn = [](dtype t) {
      return t == dtype::fp32 || t == dtype::bf16 || t == dtype::fp16 || t == dtype::e4m3;
    };
    expects(!stochastic_moments || (drawn(moments.first) && drawn(moments.others)),
            "storage_options: moments are rounded at random to bf16, fp16 or e4m3", at);
    expects(!stochastic_copies || masters == amp::masters::fp32,
            "storage_options: copies that are rounded at random are those of fp32 masters", at);
    expects(!flat || masters == amp::masters::fp32, "storage_options: flat masters are fp32 masters", at);
  }
};

}  // namespace amp
