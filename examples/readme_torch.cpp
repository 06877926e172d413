// Mixed-precision training of a LibTorch module: fp16 weights, fp32 masters, gradients summed over two micro-batches.
#include <torch/torch.h>

#include <amp_torch/amp_torch.hpp>
#include <iostream>
#include <memory>
#include <vector>

struct Net : torch::nn::Module {  // learns the sum of its inputs; gives the squared errors
  torch::nn::Linear first = register_module("first", torch::nn::Linear(8, 16));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(16, 1));
  at::Tensor forward(const at::Tensor& x) {
    const auto low = x.to(first->weight.scalar_type());
    return (last(torch::relu(first(low))).to(at::kFloat) - x.sum(1, true)).square();
  }
};

int main() {
  torch::manual_seed(5);
  const auto net = std::make_shared<Net>();
  const std::vector<at::Tensor> loader(400, torch::randn({32, 8}));
  const float before = net->forward(loader[0]).mean().item<float>();
  // [readme]
  auto session = amp_torch::initialize<amp::O2>(*net, amp::Adam{.lr = 1e-2});
  for (int micro = 1; const auto& batch : loader) {
    const bool boundary = micro++ % 2 == 0;
    const auto loss = net->forward(batch).mean();
    amp::scale_loss(loss, session, [&](const at::Tensor& scaled) { scaled.backward(); }, {.delay_unscale = !boundary});
    if (!boundary) continue;
    amp::clip_grad_norm(session, 5.);  // of the unscaled gradients; the factor is folded into the step
    if (session.step() == amp::Verdict::skip) std::cout << "overflow in " << session.overflow() << '\n';
    session.zero_grad();
  }
  // [readme]
  const float after = net->forward(loader[0]).mean().item<float>();
  std::cout << "loss " << before << " before, " << after << " after\n";
  return after < 0.1f * before ? 0 : 1;
}
