#include "model/resnet.hpp"

#include <doctest/doctest.h>
#include <torch/torch.h>

#include <cmath>
#include <string>

#include "app/model/small_model.hpp"
#include "config/errors.hpp"

using namespace clipbert;
using test_support::distance;

namespace {

void fill_norm(torch::nn::Module& norm) {
  torch::manual_seed(3);
  for (auto& tensor : norm.parameters()) tensor.data().copy_(1 + 0.25 * at::randn_like(tensor));
  for (auto& item : norm.named_buffers()) {
    if (!item.value().is_floating_point()) continue;
    item.value().copy_(item.key() == "running_var" ? at::rand_like(item.value()) + 0.4 : at::randn_like(item.value()));
  }
}

at::Tensor reference_norm(const torch::nn::Module& norm, const at::Tensor& x, double eps) {
  const auto tensors = norm.named_buffers();
  const auto column = [&](const char* name) { return tensors[name].view({1, -1, 1, 1}); };
  const auto gain = column("weight") * at::rsqrt(column("running_var") + eps);
  return x * gain + (column("bias") - column("running_mean") * gain);
}

/// The share of elements that are not equal.
double differing(const at::Tensor& a, const at::Tensor& b) { return a.ne(b).to(at::kDouble).mean().item<double>(); }

}  // namespace

TEST_SUITE("model/frozen_norm") {
  TEST_CASE("a fresh frozen norm holds buffers only and leaves its input as it is") {
    model::FrozenBatchNorm norm(4, 1e-5);
    CHECK(norm.parameters().empty());
    CHECK(norm.named_buffers().size() == 4);
    CHECK(norm.named_buffers()["running_var"][0].item<float>() == doctest::Approx(1 - 1e-5));
    const auto x = at::randn({2, 4, 3, 3});
    CHECK(distance(norm.forward(x), x) < 1e-6);
  }
  TEST_CASE("fp32 buffers with bf16 input are computed wide and rounded once") {
    model::FrozenBatchNorm norm(8, 1e-5);
    fill_norm(norm);
    const auto x = at::randn({4, 8, 16, 16}).to(at::kBFloat16).contiguous(at::MemoryFormat::ChannelsLast);
    const auto got = norm.forward(x);
    const auto wide = reference_norm(norm, x.to(at::kFloat), 1e-5);
    CHECK((got.scalar_type() == at::kBFloat16));
    CHECK(differing(got, wide.to(at::kBFloat16)) <
          1e-3);  // a fused multiply-add moves a few across a rounding boundary
    CHECK(((got.to(at::kFloat) - wide).abs() <= wide.abs() * 0x1.01p-8 + 1e-6).all().item<bool>());
  }
  TEST_CASE("bf16 buffers round gain, shift, product and sum, as the original's level O2") {
    model::FrozenBatchNorm norm(8, 1e-5);
    fill_norm(norm);
    norm.to(at::kBFloat16);
    const auto x = at::randn({4, 8, 5, 5}).to(at::kBFloat16);
    CHECK(at::equal(norm.forward(x), reference_norm(norm, x, 1e-5)));
  }
  TEST_CASE("the gradient of the input is the gain") {
    model::FrozenBatchNorm norm(4, 1e-5);
    fill_norm(norm);
    const auto x = at::randn({2, 4, 3, 3}).requires_grad_();
    norm.forward(x).sum().backward();
    const auto tensors = norm.named_buffers();
    const auto gain = tensors["weight"] * at::rsqrt(tensors["running_var"] + 1e-5);
    CHECK(distance(x.grad(), gain.view({1, -1, 1, 1}).expand_as(x)) < 1e-6);
  }
}

TEST_SUITE("model/trainable_norm") {
  TEST_CASE("fp32 tensors with bf16 input are computed wide and rounded once, forward and backward") {
    model::BatchNorm low(8, 1e-5), wide(8, 1e-5);
    fill_norm(low), fill_norm(wide);
    const auto values = at::randn({6, 8, 12, 12}).to(at::kBFloat16).contiguous(at::MemoryFormat::ChannelsLast);
    const auto gradient = at::randn_like(values);
    const auto x = values.detach().clone().requires_grad_();
    const auto y = values.detach().to(at::kFloat).requires_grad_();
    const auto got = low.forward(x), expected = wide.forward(y);
    got.backward(gradient), expected.backward(gradient.to(at::kFloat));
    CHECK((got.scalar_type() == at::kBFloat16));
    CHECK((low.weight.grad().scalar_type() == at::kFloat));
    CHECK(differing(got, expected.to(at::kBFloat16)) < 1e-3);
    CHECK(differing(x.grad(), y.grad().to(at::kBFloat16)) < 2e-3);
    CHECK(distance(low.weight.grad(), wide.weight.grad()) < 1e-3);
    CHECK(distance(low.bias.grad(), wide.bias.grad()) < 1e-3);
    CHECK(distance(low.running_mean, wide.running_mean) < 1e-6);
    CHECK(distance(low.running_var, wide.running_var) < 1e-5);
  }
  TEST_CASE("the counter of batches stays an int64 under casts and counts on") {
    model::BatchNorm norm(4, 1e-5);
    norm.forward(at::randn({2, 4, 3, 3}));
    norm.to(at::kBFloat16);
    CHECK((norm.running_mean.scalar_type() == at::kBFloat16));
    CHECK((norm.num_batches_tracked.scalar_type() == at::kLong));
    norm.to(at::kCPU, at::kFloat);
    norm.forward(at::randn({2, 4, 3, 3}));
    CHECK((norm.named_buffers()["num_batches_tracked"].scalar_type() == at::kLong));
    CHECK(norm.named_buffers()["num_batches_tracked"].item<std::int64_t>() == 2);
  }
}

TEST_SUITE("model/resnet") {
  TEST_CASE("with stride_in_1x1 a stage's first block reads every second pixel, else its 3x3 convolution reads all") {
    for (const bool first : {true, false}) {
      CAPTURE(first);
      auto config = test_support::small_cnn();
      config.stride_in_1x1 = first;
      torch::manual_seed(5);
      model::Bottleneck block(16, 8, 32, 2, config);
      const auto x = at::randn({1, 16, 10, 12}).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
      const auto y = block.forward(x);
      CHECK(y.sizes() == at::IntArrayRef({1, 32, 5, 6}));
      y.square().sum().backward();
      CHECK(x.grad().is_contiguous(at::MemoryFormat::ChannelsLast));
      auto odd = x.grad().clone();
      odd.slice(2, 0, std::nullopt, 2).slice(3, 0, std::nullopt, 2).zero_();
      CHECK(odd.eq(0).all().item<bool>() == first);
    }
  }
  TEST_CASE("a block is three convolutions, the strided ones of which equal convolutions with that stride") {
    for (const bool first : {true, false}) {
      CAPTURE(first);
      auto config = test_support::small_cnn();
      config.stride_in_1x1 = first;
      torch::manual_seed(6);
      model::Bottleneck block(16, 8, 32, 2, config);  // its fresh frozen norms change nothing
      const auto weights = block.named_parameters();
      const auto x = at::randn({2, 16, 9, 12});
      const auto conv = [&](const at::Tensor& in, const std::string& name, std::int64_t stride, std::int64_t pad) {
        return at::conv2d(in, weights[name + ".weight"], {}, at::IntArrayRef(stride), at::IntArrayRef(pad));
      };
      const auto inner = conv(conv(x, "conv1", first ? 2 : 1, 0).relu(), "conv2", first ? 1 : 2, 1).relu();
      const auto expected = (conv(inner, "conv3", 1, 0) + conv(x, "shortcut", 2, 0)).relu();
      CHECK(distance(block.forward(x), expected) < 1e-4);
    }
  }
  TEST_CASE("a shortcut is projected only where the channel count changes") {
    const auto net = std::make_shared<model::ResNet>(test_support::small_cnn());
    const auto names = net->named_parameters();
    CHECK(names.contains("res2.0.shortcut.weight"));
    CHECK(names.contains("res3.0.shortcut.weight"));
    CHECK_FALSE(names.contains("res3.1.shortcut.weight"));
  }
  TEST_CASE("freeze_at 0 freezes nothing, 1 the stem, 2 the stem and res2") {
    for (std::int64_t freeze_at = 0; freeze_at <= 2; ++freeze_at) {
      const model::ResNet net(test_support::small_cnn("bn", freeze_at));
      for (const auto& item : net.named_parameters()) {
        const bool frozen =
            (freeze_at > 0 && item.key().starts_with("stem")) || (freeze_at > 1 && item.key().starts_with("res2"));
        CHECK_MESSAGE(item.value().requires_grad() == !frozen, item.key());
      }
    }
  }
  TEST_CASE("trunk weights start kaiming-normal over the fan-out, the grid convolution kaiming-uniform") {
    torch::manual_seed(5);
    auto config = test_support::small_cnn();
    config.bottleneck_width = 32, config.out_width = 64;
    const model::Cnn cnn(config, 64);
    const auto weights = cnn.named_parameters();
    const auto& conv = weights["feature.backbone.res3.1.conv2.weight"];  // 64 -> 64, 3x3
    CHECK(conv.std().item<double>() == doctest::Approx(std::sqrt(2.0 / (64 * 9))).epsilon(0.03));
    const auto& grid = weights["grid_encoder.0.weight"];  // 128 -> 64, 3x3
    const double bound = 1 / std::sqrt(128 * 9.0);
    CHECK(grid.abs().max().item<double>() <= bound);
    CHECK(grid.std().item<double>() == doctest::Approx(bound / std::sqrt(3.0)).epsilon(0.03));
  }
  TEST_CASE("the grid has half the trunk's height and width, rounded down") {
    model::Cnn cnn(test_support::small_cnn(), 16);
    CHECK(cnn.forward(at::randn({2, 3, 3, 64, 88})).sizes() == at::IntArrayRef({2, 3, 4, 5, 16}));
  }
  TEST_CASE("frames are turned from RGB to BGR") {
    torch::manual_seed(5);
    model::Cnn cnn(test_support::small_cnn(), 16);
    const auto frames = at::randn({1, 1, 3, 64, 64});
    model::Activations kept;
    cnn.forward(frames, &kept);
    const auto trunk = cnn.named_modules("", false)["feature.backbone"];
    const auto run = [&](const at::Tensor& pictures) { return trunk->as<model::ResNet>()->forward(pictures); };
    CHECK(distance(kept.at("res5"), run(frames[0].flip(1))) < 1e-5);
    CHECK(distance(kept.at("res5"), run(frames[0])) > 1e-2);
  }
  TEST_CASE("an unknown norm is refused by name") {
    CHECK_THROWS_WITH_AS(model::ResNet(test_support::small_cnn("gn")),
                         "cnn.norm: \"gn\" is not known; use frozen_bn or bn", usage_error);
  }
}
