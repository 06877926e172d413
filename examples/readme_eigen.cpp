// Mixed-precision training of an Eigen network: bf16 weights, fp32 masters, dynamic loss scale.
#include "linear.hpp"

// [readme]
#include <amp/adapters/eigen.hpp>
#include <amp/amp.hpp>

int main() {
  auto session = amp::initialize<amp::O2.with(amp::dtype::bf16)>(Linear<float>{}, amp::Sgd{.lr = 0.1f});
  auto& net = session.model();  // a Linear<amp::bfloat16>
  for (int step = 0; step < 300; ++step) {
    const Eigen::Vector4f x = Eigen::Vector4f::Random();
    const float err = net.forward(x) - x.sum();
    session.zero_grad();
    amp::scale_loss(0.5f * err * err, session, [&](float scaled) { net.backward(x, err == 0 ? 0 : 2 * scaled / err); });
    amp::clip_grad_norm(session, 5.f);  // over the unscaled master gradients
    session.step();                     // updates masters, writes bf16 weights, or skips after an overflow
  }
  return (net.weight.cast<float>() - Eigen::Vector4f::Ones()).norm() < 0.05f ? 0 : 1;
}
// [readme]
