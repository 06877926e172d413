/// The lists of O1: which operations run in the low type, which in fp32, which in the widest type of their inputs.
#pragma once
#include <amp/core/check.hpp>
#include <amp/core/dtype.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace amp::cast {

/// What is done with the inputs of an operation before it runs.
enum class rule : std::uint8_t {
  free,     ///< nothing: it runs in the type it gets
  low,      ///< all to the low type
  fp32,     ///< all to fp32
  promote,  ///< all to the widest of them
  banned    ///< refused with a low input
};

/// An operation by its name in LibTorch's operator library, without "aten::".
struct op_rule {
  std::string_view op;
  cast::rule rule;
};

/// Matrix products, convolutions, recurrent cells and attention: fast in low types, with fp32 accumulation.
/// source  apex amp/lists, torch autocast's lower-precision list
inline constexpr std::string_view low_ops[] = {"_convolution",
                                               "_scaled_dot_product_flash_attention",
                                               "_scaled_dot_product_flash_attention_for_cpu",
                                               "_thnn_fused_gru_cell",
                                               "_thnn_fused_lstm_cell",
                                               "addbmm",
                                               "addmm",
                                               "addmv",
                                               "addr",
                                               "baddbmm",
                                               "bmm",
                                               "chain_matmul",
                                               "conv1d",
                                               "conv2d",
                                               "conv3d",
                                               "conv_tbc",
                                               "conv_transpose1d",
                                               "conv_transpose2d",
                                               "conv_transpose3d",
                                               "convolution",
                                               "einsum",
                                               "gru",
                                               "gru_cell",
                                               "linalg_multi_dot",
                                               "linalg_vecdot",
                                               "linear",
                                               "lstm",
                                               "lstm_cell",
                                               "matmul",
                                               "mm",
                                               "mv",
                                               "prelu",
                                               "rnn_relu",
                                               "rnn_relu_cell",
                                               "rnn_tanh",
                                               "rnn_tanh_cell",
                                               "scaled_dot_product_attention"};
/// Wide results of narrow inputs, sums, normalisation, losses: need fp32's range or precision.
/// source  apex amp/lists, torch autocast's fp32 lists; gelu and cpu from apex
inline constexpr std::string_view fp32_ops[] = {"_log_softmax",
                                                "_softmax",
                                                "_upsample_bicubic2d_aa",
                                                "_upsample_bilinear2d_aa",
                                                "_upsample_nearest_exact1d",
                                                "_upsample_nearest_exact2d",
                                                "_upsample_nearest_exact3d",
                                                "acos",
                                                "acosh",
                                                "asin",
                                                "asinh",
                                                "atanh",
                                                "binary_cross_entropy_with_logits",
                                                "cdist",
                                                "cosh",
                                                "cosine_embedding_loss",
                                                "cosine_similarity",
                                                "cpu",
                                                "cross_entropy_loss",
                                                "ctc_loss",
                                                "cumprod",
                                                "cumsum",
                                                "dist",
                                                "erfinv",
                                                "exp",
                                                "exp2",
                                                "expm1",
                                                "frobenius_norm",
                                                "gelu",
                                                "grid_sampler",
                                                "grid_sampler_2d",
                                                "grid_sampler_3d",
                                                "group_norm",
                                                "hinge_embedding_loss",
                                                "huber_loss",
                                                "kl_div",
                                                "l1_loss",
                                                "layer_norm",
                                                "linalg_matrix_norm",
                                                "linalg_vector_norm",
                                                "local_response_norm",
                                                "log",
                                                "log10",
                                                "log1p",
                                                "log2",
                                                "log_softmax",
                                                "logcumsumexp",
                                                "logsumexp",
                                                "margin_ranking_loss",
                                                "mse_loss",
                                                "multi_margin_loss",
                                                "multilabel_margin_loss",
                                                "native_group_norm",
                                                "native_layer_norm",
                                                "nll_loss",
                                                "nll_loss2d",
                                                "nll_loss_nd",
                                                "norm",
                                                "normalize",
                                                "nuclear_norm",
                                                "pdist",
                                                "poisson_nll_loss",
                                                "pow",
                                                "prod",
                                                "reciprocal",
                                                "renorm",
                                                "rms_norm",
                                                "rsqrt",
                                                "sinh",
                                                "smooth_l1_loss",
                                                "soft_margin_loss",
                                                "softmax",
                                                "softmin",
                                                "softplus",
                                                "std",
                                                "std_mean",
                                                "sum",
                                                "tan",
                                                "triplet_margin_loss",
                                                "upsample_bicubic2d",
                                                "upsample_bilinear2d",
                                                "upsample_linear1d",
                                                "upsample_nearest1d",
                                                "upsample_nearest2d",
                                                "upsample_nearest3d",
                                                "upsample_trilinear3d",
                                                "var",
                                                "var_mean"};
/// Several inputs that have to agree.
inline constexpr std::string_view promote_ops[] = {
    "add", "addcdiv", "addcmul",     "atan2", "bilinear", "cat",       "concat",    "concatenate", "cross",
    "div", "dot",     "eq",          "ge",    "gt",       "hstack",    "index_put", "le",          "lt",
    "mul", "ne",      "scatter_add", "stack", "sub",      "tensordot", "vdot",      "vstack"};
/// Unsafe in low types: probabilities near 0 and 1 round to them, and their logarithms are infinite.
inline constexpr std::string_view banned_ops[] = {"binary_cross_entropy"};

/// What the user of a banned operation is told.
[[nodiscard]] constexpr std::string_view advice(std::string_view op) noexcept {
  if (op == "binary_cross_entropy")
    return "use binary_cross_entropy_with_logits on the values before the sigmoid, or allow it to run in fp32";
  return "use a form that is safe in low precision, or allow it to run in fp32";
}

namespace detail {
template <std::size_t N>
constexpr bool lists(const std::string_view (&ops)[N], std::string_view op) noexcept {
  for (const auto& known : ops)
    if (known == op) return true;
  return false;
}
}  // namespace detail

/// Whether an operation stands in one of the lists.
[[nodiscard]] constexpr bool listed(std::string_view op) noexcept {
  return detail::lists(low_ops, op) || detail::lists(fp32_ops, op) || detail::lists(promote_ops, op) ||
         detail::lists(banned_ops, op);
}
/// The rule of an operation; whatever stands in no list is free. In-place forms ("add_") have the rule of their name
/// without the underscore; `decide` treats them.
[[nodiscard]] constexpr rule default_rule(std::string_view op) noexcept {
  if (detail::lists(low_ops, op)) return rule::low;
  if (detail::lists(fp32_ops, op)) return rule::fp32;
  if (detail::lists(promote_ops, op)) return rule::promote;
  return detail::lists(banned_ops, op) ? rule::banned : rule::free;
}
/// True for "add_", which writes into its first argument; false for "__and__".
[[nodiscard]] constexpr bool in_place(std::string_view op) noexcept { return op.ends_with('_') && !op.ends_with("__"); }
[[nodiscard]] constexpr std::string_view base_name(std::string_view op) noexcept {
  return in_place(op) ? op.substr(0, op.size() - 1) : op;
}

/// What is to happen with the eligible inputs of one call.
struct decision {
  enum : std::uint8_t { keep, convert, refuse } what = keep;
  dtype to = dtype::fp32;     ///< of `convert`
  std::string_view why = {};  ///< of `refuse`
};

inline constexpr std::string_view mixed_low =
    "fp16 and bf16 inputs meet in one operation, which have no common low type; cast one of them first";
inline constexpr std::string_view fp32_in_place =
    "the in-place form of an fp32 operation cannot store its result in a low tensor; use the form that returns a new "
    "one";

/// The one decision behind compile-time and run-time casts. `types`: formats of the eligible inputs (floating, never
/// double), in order; in-place forms write into the first.
[[nodiscard]] constexpr decision decide(rule r, bool writes_first, dtype low, std::span<const dtype> types,
                                        bool allow_banned = false) noexcept {
  if (types.empty() || r == rule::free) return {};
  bool any_low = false, fp16 = false, bf16 = false, fp32 = false;
  for (const dtype t : types) {
    any_low |= t != dtype::fp32, fp16 |= t == dtype::fp16, bf16 |= t == dtype::bf16, fp32 |= t == dtype::fp32;
  }
  if (r == rule::banned) {
    if (any_low && !allow_banned) return {decision::refuse, dtype::fp32, "this operation is banned for low inputs"};
    return {decision::convert, dtype::fp32, {}};
  }
  if (r == rule::fp32) {
    if (writes_first && types[0] != dtype::fp32) return {decision::refuse, dtype::fp32, fp32_in_place};
    return {decision::convert, dtype::fp32, {}};
  }
  if (writes_first) return {decision::convert, types[0], {}};  // of low and promote: as the tensor written to
  if (r == rule::low) return {decision::convert, low, {}};
  if (fp16 && bf16) return {decision::refuse, dtype::fp32, mixed_low};
  return {decision::convert, fp32 ? dtype::fp32 : types[0], {}};
}

/// The lists as a run has them: the defaults, changed per operation. A copy changed again serves one scope.
/// Usage: `cast::OpLists lists; lists.set("my_ops::blur", cast::rule::fp32); lists.set("gelu", cast::rule::free);`
class OpLists {
 public:
  /// throws  amp::error for an empty name and for an in-place form, which follows its base
  OpLists& set(std::string op, rule r, where at = where::here()) {
    expects(!op.empty(), "op lists: an operation needs a name", at);
    expects(
        !in_place(op), [&] { return "op lists: " + op + " follows " + std::string(base_name(op)) + "; set that one"; },
        at);
    for (auto& [name, old] : changes_)
      if (name == op) return old = r, *this;
    changes_.emplace_back(std::move(op), r);
    return *this;
  }
  /// Lets banned operations run in fp32.
  OpLists& allow_banned(bool on = true) noexcept { return allow_banned_ = on, *this; }
  [[nodiscard]] bool banned_allowed() const noexcept { return allow_banned_; }

  /// The rule of an operation; a name in another library than LibTorch's own comes with its library: "my_ops::blur".
  [[nodiscard]] rule find(std::string_view op) const noexcept {
    for (const auto& [name, r] : changes_)
      if (name == op) return r;
    return default_rule(op);
  }
  friend bool operator==(const OpLists&, const OpLists&) = default;

 private:
  std::vector<std::pair<std::string, rule>> changes_;
  bool allow_banned_ = false;
};

}  // namespace amp::cast
