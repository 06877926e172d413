#include <doctest/doctest.h>
#include <torch/torch.h>

#include <amp_torch/cast.hpp>
#include <array>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace {

struct Net : torch::nn::Module {
  torch::nn::Conv2d conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 4, 3)));
  torch::nn::BatchNorm2d norm = register_module("norm", torch::nn::BatchNorm2d(4));
  torch::nn::BatchNorm2d plain =
      register_module("plain", torch::nn::BatchNorm2d(torch::nn::BatchNorm2dOptions(4).affine(false)));
  torch::nn::LSTM lstm = register_module("lstm", torch::nn::LSTM(4, 5));
  torch::Tensor scale = register_buffer("scale", torch::full({4}, 1.5));
  torch::Tensor seen = register_buffer("seen", torch::zeros({1}, torch::kLong));
};

bool has(const torch::Tensor& t, at::ScalarType type) { return t.scalar_type() == type; }

}  // namespace

TEST_SUITE("amp_torch/cast") {
  TEST_CASE("L4 floating parameters and buffers are cast, integer buffers stay, affine batch norms stay in fp32") {
    for (const auto type : {torch::kHalf, torch::kBFloat16}) {
      Net net;
      amp_torch::cast_model(net, type);
      CHECK(has(net.conv->weight, type));
      CHECK(has(net.conv->bias, type));
      CHECK(has(net.norm->weight, torch::kFloat));
      CHECK(has(net.norm->running_mean, torch::kFloat));
      CHECK(has(net.norm->num_batches_tracked, torch::kLong));
      CHECK(has(net.plain->running_var, type));
      CHECK(has(net.plain->num_batches_tracked, torch::kLong));
      CHECK(has(net.lstm->named_parameters()["weight_ih_l0"], type));
      CHECK(has(net.scale, type));
      CHECK(has(net.seen, torch::kLong));
    }
  }
  TEST_CASE("L4 without keep_batchnorm_fp32 batch norms are cast, counters still not") {
    Net net;
    amp_torch::cast_model(net, torch::kBFloat16, {.keep_batchnorm_fp32 = false});
    CHECK(has(net.norm->weight, torch::kBFloat16));
    CHECK(has(net.norm->num_batches_tracked, torch::kLong));
  }
  TEST_CASE("L4 a module may ask for fp32") {
    Net net;
    amp_torch::cast_model(net, torch::kBFloat16, {.keep_fp32 = [](const std::string& name, const auto& module) {
                            return name == "plain" || dynamic_cast<const torch::nn::Conv2dImpl*>(&module) != nullptr;
                          }});
    CHECK(has(net.plain->running_var, torch::kFloat));
    CHECK(has(net.conv->weight, torch::kFloat));
    CHECK(has(net.scale, torch::kBFloat16));
  }
  TEST_CASE("L4 a parameter keeps its identity and its gradient follows its type") {
    Net net;
    const auto held = net.conv->weight;
    net.conv->weight.mutable_grad() = torch::full_like(held, 0.1);
    amp_torch::cast_model(net, torch::kBFloat16);
    CHECK(held.is_same(net.conv->weight));
    CHECK(has(held, torch::kBFloat16));
    CHECK(has(held.grad(), torch::kBFloat16));
    CHECK(held.is_leaf());
    CHECK(held.requires_grad());
    net.conv->zero_grad();
    net.conv(torch::ones({1, 3, 5, 5}, torch::kBFloat16)).sum().backward();
    CHECK(has(held.grad(), torch::kBFloat16));
  }
  TEST_CASE("L4 the memory format survives the cast") {
    Net net;
    net.conv->weight.set_data(net.conv->weight.contiguous(torch::MemoryFormat::ChannelsLast));
    amp_torch::cast_model(net, torch::kBFloat16);
    CHECK(net.conv->weight.is_contiguous(torch::MemoryFormat::ChannelsLast));
  }
  TEST_CASE("L5 inputs are cast at any depth, integers and text pass unchanged") {
    const auto x = torch::ones({2});
    const auto k = torch::ones({2}, torch::kLong);
    const auto low = [](const torch::Tensor& t) { return t.scalar_type() == torch::kBFloat16; };
    using Nested = std::tuple<torch::Tensor, std::vector<torch::Tensor>, std::map<std::string, torch::Tensor>, int,
                              std::string, std::optional<torch::Tensor>, std::array<torch::Tensor, 2>>;
    const auto out =
        amp_torch::cast_floating(Nested{k, {x, k}, {{"a", x}, {"b", k}}, 3, "text", x, {x, k}}, torch::kBFloat16);
    CHECK(std::get<0>(out).is_same(k));
    CHECK(low(std::get<1>(out)[0]));
    CHECK(std::get<1>(out)[1].is_same(k));
    CHECK(low(std::get<2>(out).at("a")));
    CHECK(std::get<2>(out).at("b").is_same(k));
    CHECK(std::get<3>(out) == 3);
    CHECK(std::get<4>(out) == "text");
    CHECK(low(*std::get<5>(out)));
    CHECK(low(std::get<6>(out)[0]));
    CHECK(std::get<6>(out)[1].is_same(k));
  }
  TEST_CASE("L5 a user's batch type converts itself") {
    struct Batch {
      torch::Tensor frames;
      [[nodiscard]] Batch to(at::ScalarType type) const { return {frames.to(type)}; }
    };
    CHECK(has(amp_torch::cast_floating(Batch{torch::ones({1})}, torch::kHalf).frames, torch::kHalf));
  }
  TEST_CASE("L4 an LSTM's weights are cast, flattened again and still run, with their gradients") {
    Net net;
    for (const auto& p : net.lstm->parameters()) p.mutable_grad() = torch::full_like(p, 0.5);
    amp_torch::cast_model(net, torch::kBFloat16);
    for (const auto& p : net.lstm->named_parameters()) {
      CHECK(has(p.value(), torch::kBFloat16));
      CHECK(has(p.value().grad(), torch::kBFloat16));
    }
    const auto [out, state] = net.lstm(torch::ones({2, 1, 4}, torch::kBFloat16));
    CHECK(has(out, torch::kBFloat16));
    CHECK(net.lstm->named_parameters()["weight_ih_l0"].is_same(net.lstm->all_weights()[0]));
  }
  TEST_CASE("L5 lists and pairs of any nesting are cast, strings and numbers in them stay") {
    const auto x = torch::ones({2});
    const auto out = amp_torch::cast_floating(
        std::pair{std::list<torch::Tensor>{x, x}, std::vector<std::pair<std::string, torch::Tensor>>{{"a", x}}},
        torch::kHalf);
    CHECK(has(out.first.back(), torch::kHalf));
    CHECK(out.second[0].first == "a");
    CHECK(has(out.second[0].second, torch::kHalf));
    CHECK(amp_torch::cast_floating(std::vector<int>{1, 2}, torch::kHalf) == std::vector<int>{1, 2});
  }
}
