#include <doctest/doctest.h>

#include <algorithm>
#include <amp/cast/op_lists.hpp>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

using amp::dtype;
namespace cast = amp::cast;
using cast::decision;
using cast::rule;

namespace {
decision decide(rule r, bool in_place, std::vector<dtype> types, bool allow = false) {
  return cast::decide(r, in_place, dtype::fp16, types, allow);
}
bool converts(const decision& d, dtype to) { return d.what == decision::convert && d.to == to; }
bool refuses(const decision& d, std::string_view why) {
  return d.what == decision::refuse && d.why.find(why) != std::string_view::npos;
}
constexpr dtype f32 = dtype::fp32, f16 = dtype::fp16, bf = dtype::bf16;
}  // namespace

TEST_SUITE("cast/op_lists") {
  TEST_CASE("C1 products, convolutions, recurrent cells and attention go to the low type") {
    for (const char* op : {"conv1d",
                           "conv2d",
                           "conv3d",
                           "conv_transpose1d",
                           "conv_transpose2d",
                           "conv_transpose3d",
                           "linear",
                           "matmul",
                           "mm",
                           "mv",
                           "bmm",
                           "addmm",
                           "addmv",
                           "addr",
                           "addbmm",
                           "baddbmm",
                           "einsum",
                           "chain_matmul",
                           "linalg_multi_dot",
                           "prelu",
                           "rnn_tanh",
                           "rnn_relu",
                           "lstm",
                           "gru",
                           "rnn_tanh_cell",
                           "rnn_relu_cell",
                           "lstm_cell",
                           "gru_cell",
                           "scaled_dot_product_attention"})
      CHECK_MESSAGE(cast::default_rule(op) == rule::low, op);
  }
  TEST_CASE("C1 wide functions, sums, norms, losses, interpolation and copies to the CPU go to fp32") {
    for (const char* op : {"acos",
                           "asin",
                           "cosh",
                           "sinh",
                           "tan",
                           "erfinv",
                           "exp",
                           "expm1",
                           "log",
                           "log10",
                           "log2",
                           "log1p",
                           "reciprocal",
                           "rsqrt",
                           "pow",
                           "cumprod",
                           "cumsum",
                           "dist",
                           "norm",
                           "prod",
                           "std",
                           "sum",
                           "var",
                           "renorm",
                           "softmax",
                           "log_softmax",
                           "softmin",
                           "softplus",
                           "gelu",
                           "logsumexp",
                           "layer_norm",
                           "group_norm",
                           "local_response_norm",
                           "normalize",
                           "cosine_similarity",
                           "mse_loss",
                           "l1_loss",
                           "smooth_l1_loss",
                           "nll_loss",
                           "cross_entropy_loss",
                           "kl_div",
                           "huber_loss",
                           "binary_cross_entropy_with_logits",
                           "ctc_loss",
                           "upsample_bilinear2d",
                           "upsample_nearest2d",
                           "grid_sampler",
                           "cpu"})
      CHECK_MESSAGE(cast::default_rule(op) == rule::fp32, op);
  }
  TEST_CASE("C1 operations whose inputs have to agree are promoted, sequences included") {
    for (const char* op : {"add",      "sub", "mul",       "div",       "eq",          "ne",    "lt",
                           "le",       "gt",  "ge",        "addcdiv",   "addcmul",     "atan2", "cross",
                           "bilinear", "dot", "tensordot", "index_put", "scatter_add", "cat",   "stack"})
      CHECK_MESSAGE(cast::default_rule(op) == rule::promote, op);
  }
  TEST_CASE("C1 everything else is free, and no operation stands in two lists") {
    for (const char* op : {"relu", "batch_norm", "max_pool2d", "avg_pool2d", "dropout", "reshape", "mean", "tanh"})
      CHECK_MESSAGE(cast::default_rule(op) == rule::free, op);
    std::vector<std::string_view> all;
    for (const auto list :
         {std::span<const std::string_view>(cast::low_ops), std::span<const std::string_view>(cast::fp32_ops),
          std::span<const std::string_view>(cast::promote_ops), std::span<const std::string_view>(cast::banned_ops)})
      all.insert(all.end(), list.begin(), list.end());
    std::sort(all.begin(), all.end());
    CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
  }
  TEST_CASE("C1 binary cross entropy on probabilities is banned for low inputs, with advice, unless allowed") {
    CHECK(cast::default_rule("binary_cross_entropy") == rule::banned);
    CHECK(refuses(decide(rule::banned, false, {f16, f32}), "banned for low inputs"));
    CHECK(converts(decide(rule::banned, false, {f32, f32}), f32));
    CHECK(converts(decide(rule::banned, false, {f16, f32}, true), f32));
    CHECK(cast::advice("binary_cross_entropy").find("binary_cross_entropy_with_logits") == 4);
    CHECK_FALSE(cast::advice("other").empty());
  }
  TEST_CASE("C1 in-place forms take the type of the tensor that they write, fp32 forms refuse a low one") {
    CHECK(cast::in_place("add_"));
    CHECK_FALSE(cast::in_place("add"));
    CHECK_FALSE(cast::in_place("__and__"));
    CHECK(cast::base_name("addmm_") == "addmm");
    CHECK(converts(decide(rule::promote, true, {f16, f32}), f16));
    CHECK(converts(decide(rule::promote, true, {f32, f16}), f32));
    CHECK(converts(decide(rule::low, true, {f32, f16}), f32));
    CHECK(refuses(decide(rule::fp32, true, {f16}), "in-place form of an fp32 operation"));
    CHECK(converts(decide(rule::fp32, true, {f32, bf}), f32));
  }
  TEST_CASE("C2 promotion takes the widest input, and refuses fp16 with bf16") {
    CHECK(converts(decide(rule::promote, false, {f16, f32, f16}), f32));
    CHECK(converts(decide(rule::promote, false, {bf, bf}), bf));
    CHECK(refuses(decide(rule::promote, false, {f16, bf}), "no common low type"));
    CHECK(refuses(decide(rule::promote, false, {f16, bf, f32}), "no common low type"));
    CHECK(converts(decide(rule::low, false, {bf, f32}), f16));
  }
  TEST_CASE("C2 a call without eligible inputs is left alone") {
    for (const rule r : {rule::low, rule::fp32, rule::promote, rule::banned})
      CHECK(decide(r, false, {}).what == decision::keep);
    CHECK(decide(rule::free, false, {f16}).what == decision::keep);
  }
  TEST_CASE("C1 C6 lists are extended and overridden per operation, and a copy serves one scope") {
    cast::OpLists lists;
    lists.set("my_ops::blur", rule::fp32).set("gelu", rule::free).set("gelu", rule::low);
    CHECK(lists.find("my_ops::blur") == rule::fp32);
    CHECK(lists.find("gelu") == rule::low);
    CHECK(lists.find("mm") == rule::low);
    cast::OpLists inner = lists;
    inner.set("mm", rule::fp32).allow_banned();
    CHECK(inner.find("mm") == rule::fp32);
    CHECK(lists.find("mm") == rule::low);
    CHECK(inner.banned_allowed());
    CHECK_FALSE(lists.banned_allowed());
    CHECK_THROWS_AS(lists.set("", rule::low), amp::error);
    CHECK_THROWS_AS(lists.set("add_", rule::low), amp::error);
  }
}
