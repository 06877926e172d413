/// The visual side: a ResNet of bottlenecks with detectron2's names and the grid encoder on top of it.
#pragma once
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/config.hpp"

namespace clipbert::model {

/// Tensors that a forward pass notes down by name; a null pointer notes nothing.
using Activations = std::map<std::string, at::Tensor>;

/// Batch norm whose statistics and affine terms are all buffers: never trained, never updated.
/// types   buffers wider than the input: computed wide, rounded once; buffers of the input's type: every operation
/// rounds
class FrozenBatchNorm final : public torch::nn::Module {
 public:
  FrozenBatchNorm(std::int64_t channels, double eps);
  at::Tensor forward(const at::Tensor& x);

 private:
  double eps_;
  at::Tensor weight_, bias_, running_mean_, running_var_;
};

/// Trainable batch norm; with fp32 tensors it takes low input, computes wide and rounds once.
/// `to(dtype)` leaves the counter num_batches_tracked an int64.
class BatchNorm final : public torch::nn::BatchNorm2dImpl {
 public:
  BatchNorm(std::int64_t channels, double eps);
  void to(torch::Device device, torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Device device, bool non_blocking = false) override;
};

/// Convolution without bias that holds its norm as a child named `norm`.
class NormedConv final : public torch::nn::Conv2dImpl {
 public:
  NormedConv(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride,
             const config::CnnConfig& config);
  at::Tensor forward(const at::Tensor& x);

 private:
  std::shared_ptr<FrozenBatchNorm> frozen_;  // one of the two is set
  std::shared_ptr<BatchNorm> trained_;
};

/// 1x1, 3x3, 1x1 with a shortcut, projected where the channel count changes.
class Bottleneck final : public torch::nn::Module {
 public:
  Bottleneck(std::int64_t in, std::int64_t mid, std::int64_t out, std::int64_t stride, const config::CnnConfig& config);
  at::Tensor forward(const at::Tensor& input);

 private:
  std::int64_t first_stride_;  // of conv1 and the shortcut, taken from the input before both
  std::shared_ptr<NormedConv> shortcut_, conv1_, conv2_, conv3_;
};

/// Stem and stages res2, res3, ...; total stride 4 * 2^(stages - 1).
class ResNet final : public torch::nn::Module {
 public:
  explicit ResNet(const config::CnnConfig& config);
  at::Tensor forward(const at::Tensor& x);  ///< (N, 3, H, W) BGR -> (N, channels(), h, w)
  [[nodiscard]] std::int64_t channels() const { return channels_; }

 private:
  std::shared_ptr<NormedConv> stem_;
  std::vector<std::shared_ptr<Bottleneck>> blocks_;
  std::int64_t channels_ = 0;
};

/// `cnn.*`: trunk, then a 3x3 convolution to the transformer's width, 2x2 max pooling and ReLU.
class Cnn final : public torch::nn::Module {
 public:
  Cnn(const config::CnnConfig& config, std::int64_t hidden);
  /// frames (V, F, 3, H, W), RGB, normalised, in the weights' type -> grid (V, F, h, w, hidden)
  at::Tensor forward(const at::Tensor& frames, Activations* keep = nullptr);
  at::Tensor trunk(const at::Tensor& frames);   ///< the first part: (V, F, 3, H, W) -> (V * F, channels, h, w)
  at::Tensor grid(const at::Tensor& features);  ///< the second: (N, channels, h, w) -> (N, h / 2, w / 2, hidden)

 private:
  std::shared_ptr<ResNet> backbone_;
  std::shared_ptr<torch::nn::Conv2dImpl> grid_conv_;
};

}  // namespace clipbert::model
