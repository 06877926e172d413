// A small adversarial pair over LibTorch: two networks, two losses with a loss scale each, two optimizers.
#include <torch/torch.h>

#include <amp_torch/amp_torch.hpp>
#include <cmath>
#include <iostream>
#include <memory>

struct Mlp : torch::nn::Module {
  torch::nn::Linear first{nullptr}, last{nullptr};
  explicit Mlp(int in) {
    first = register_module("first", torch::nn::Linear(in, 32));
    last = register_module("last", torch::nn::Linear(32, 1));
  }
  at::Tensor forward(const at::Tensor& x) {
    return last(torch::leaky_relu(first(x.to(first->weight.scalar_type())), 0.1)).to(at::kFloat);
  }
};

int main() {
  torch::manual_seed(1);
  const auto maker = std::make_shared<Mlp>(4), judge = std::make_shared<Mlp>(1);
  auto make = amp_torch::initialize<amp::O2>(*maker, amp::Adam{.lr = 2e-3, .beta1 = 0.5});
  auto judging = amp_torch::initialize<amp::O2>(*judge, amp::Sgd{.lr = 5e-2});
  const auto step = [](auto& session, const at::Tensor& loss) {
    session.zero_grad();
    amp::scale_loss(loss, session, [](const at::Tensor& scaled) { scaled.backward(); });
    session.step();
  };
  for (int i = 0; i < 600; ++i) {
    const auto real = torch::randn({64, 1}) * 0.5 + 3., fake = maker->forward(torch::randn({64, 4}));
    step(judging,
         torch::softplus(-judge->forward(real)).mean() + torch::softplus(judge->forward(fake.detach())).mean());
    step(make, torch::softplus(-judge->forward(fake)).mean());  // the judge's gradients of this loss are dropped
  }
  const float mean = maker->forward(torch::randn({1000, 4})).mean().item<float>();
  std::cout << "made numbers have mean " << mean << ", real ones 3; loss scales " << make.loss_scale() << " and "
            << judging.loss_scale() << '\n';
  return std::fabs(mean - 3.f) < 1.f ? 0 : 1;
}
