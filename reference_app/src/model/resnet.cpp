#include "model/resnet.hpp"

#include <torch/torch.h>

#include <cmath>
#include <utility>

#include "config/errors.hpp"

namespace clipbert::model {
namespace {

/// A child without tensors of its own, there for the name only.
std::shared_ptr<torch::nn::Module> name_only(torch::nn::Module& parent, const std::string& name) {
  return parent.register_module(name, std::make_shared<torch::nn::Module>(name));
}

torch::nn::Conv2dOptions conv_options(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride) {
  return torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false);
}

}  // namespace

FrozenBatchNorm::FrozenBatchNorm(std::int64_t channels, double eps)
    : eps_(eps),
      weight_(register_buffer("weight", at::ones({channels}))),
      bias_(register_buffer("bias", at::zeros({channels}))),
      running_mean_(register_buffer("running_mean", at::zeros({channels}))),
      running_var_(register_buffer("running_var", at::full({channels}, 1.0 - eps))) {}

at::Tensor FrozenBatchNorm::forward(const at::Tensor& x) {
  const bool low = weight_.scalar_type() == at::kHalf || weight_.scalar_type() == at::kBFloat16;
  if (!low) return at::batch_norm(x, weight_, bias_, running_mean_, running_var_, false, 0.0, eps_, false);
  // The original's rounding: gain, shift, product and sum are each rounded to the low type.
  const auto gain = (weight_ * at::rsqrt(running_var_ + eps_)).view({1, -1, 1, 1});
  const auto shift = bias_.view({1, -1, 1, 1}) - running_mean_.view({1, -1, 1, 1}) * gain;
  return x * gain + shift;
}

BatchNorm::BatchNorm(std::int64_t channels, double eps)
    : torch::nn::BatchNorm2dImpl(torch::nn::BatchNormOptions(channels).eps(eps)) {}

void BatchNorm::to(torch::Device device, torch::Dtype dtype, bool non_blocking) {
  const auto count = num_batches_tracked.clone();
  torch::nn::BatchNorm2dImpl::to(device, dtype, non_blocking);
  num_batches_tracked.set_data(count.to(device));
}

void BatchNorm::to(torch::Dtype dtype, bool non_blocking) {
  const auto count = num_batches_tracked.clone();
  torch::nn::BatchNorm2dImpl::to(dtype, non_blocking);
  num_batches_tracked.set_data(count);
}

void BatchNorm::to(torch::Device device, bool non_blocking) { torch::nn::BatchNorm2dImpl::to(device, non_blocking); }

NormedConv::NormedConv(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride,
                       const config::CnnConfig& config)
    : torch::nn::Conv2dImpl(conv_options(in, out, kernel, stride)) {
  torch::nn::init::kaiming_normal_(weight, 0.0, torch::kFanOut, torch::kReLU);
  if (config.norm == "frozen_bn") {
    frozen_ = register_module("norm", std::make_shared<FrozenBatchNorm>(out, config.norm_eps));
  } else if (config.norm == "bn") {
    trained_ = register_module("norm", std::make_shared<BatchNorm>(out, config.norm_eps));
  } else {
    throw usage_error("cnn.norm: \"" + config.norm + "\" is not known; use frozen_bn or bn");
  }
}

at::Tensor NormedConv::forward(const at::Tensor& x) {
  const auto y = torch::nn::Conv2dImpl::forward(x);
  return trained_ ? trained_->forward(y) : frozen_->forward(y);
}

Bottleneck::Bottleneck(std::int64_t in, std::int64_t mid, std::int64_t out, std::int64_t stride,
                       const config::CnnConfig& config)
    : first_stride_(config.stride_in_1x1 ? stride : 1) {
  const std::int64_t second = config.stride_in_1x1 ? 1 : stride;
  const std::int64_t shortcut = stride / first_stride_;
  if (in != out) shortcut_ = register_module("shortcut", std::make_shared<NormedConv>(in, out, 1, shortcut, config));
  conv1_ = register_module("conv1", std::make_shared<NormedConv>(in, mid, 1, 1, config));
  conv2_ = register_module("conv2", std::make_shared<NormedConv>(mid, mid, 3, second, config));
  conv3_ = register_module("conv3", std::make_shared<NormedConv>(mid, out, 1, 1, config));
}

at::Tensor Bottleneck::forward(const at::Tensor& input) {
  // A 1x1 convolution with a stride reads only these pixels; taken once for both of them, bf16 is three times faster.
  const auto x = first_stride_ == 1
                     ? input
                     : at::avg_pool2d(input, {1, 1}, {first_stride_, first_stride_});  // keeps channels last both ways
  // In place: a norm's gradient needs its input, not its output.
  auto y = conv1_->forward(x).relu_();
  y = conv2_->forward(y).relu_();
  y = conv3_->forward(y);
  return y.add_(shortcut_ ? shortcut_->forward(x) : x).relu_();
}

ResNet::ResNet(const config::CnnConfig& config) {
  const auto stem = name_only(*this, "stem");
  stem_ = stem->register_module("conv1", std::make_shared<NormedConv>(3, config.stem_width, 7, 2, config));
  std::vector<std::shared_ptr<torch::nn::Module>> stages{stem};
  std::int64_t in = config.stem_width, mid = config.bottleneck_width, out = config.out_width;
  for (std::size_t i = 0; i < config.depths.size(); ++i, mid *= 2, out *= 2) {
    stages.push_back(name_only(*this, "res" + std::to_string(i + 2)));
    for (std::int64_t j = 0; j < config.depths[i]; ++j, in = out) {
      const std::int64_t stride = j == 0 && i > 0 ? 2 : 1;
      blocks_.push_back(stages.back()->register_module(std::to_string(j),
                                                       std::make_shared<Bottleneck>(in, mid, out, stride, config)));
    }
  }
  channels_ = in;
  for (std::size_t k = 0; k < stages.size() && static_cast<std::int64_t>(k) < config.freeze_at; ++k) {
    for (auto& parameter : stages[k]->parameters()) parameter.requires_grad_(false);
  }
}

at::Tensor ResNet::forward(const at::Tensor& x) {
  auto y = at::max_pool2d(stem_->forward(x).relu_(), {3, 3}, {2, 2}, {1, 1});
  for (const auto& block : blocks_) y = block->forward(y);
  return y;
}

Cnn::Cnn(const config::CnnConfig& config, std::int64_t hidden) {
  backbone_ = name_only(*this, "feature")->register_module("backbone", std::make_shared<ResNet>(config));
  grid_conv_ = name_only(*this, "grid_encoder")
                   ->register_module(
                       "0", std::make_shared<torch::nn::Conv2dImpl>(conv_options(backbone_->channels(), hidden, 3, 1)));
  torch::nn::init::kaiming_uniform_(grid_conv_->weight, std::sqrt(5.0));
}

at::Tensor Cnn::forward(const at::Tensor& frames, Activations* keep) {
  const auto videos = frames.size(0), count = frames.size(1);
  const auto features = trunk(frames);
  if (keep != nullptr) (*keep)["res5"] = features;
  return grid(features).unflatten(0, {videos, count});
}

at::Tensor Cnn::trunk(const at::Tensor& frames) {
  // RGB -> BGR; channels last, in which the convolutions and norms run twice as fast on the CPU.
  return backbone_->forward(frames.flatten(0, 1).flip(1).contiguous(at::MemoryFormat::ChannelsLast));
}

at::Tensor Cnn::grid(const at::Tensor& features) {
  return at::max_pool2d(grid_conv_->forward(features), {2, 2}, {2, 2}).relu_().permute({0, 2, 3, 1});
}

}  // namespace clipbert::model
