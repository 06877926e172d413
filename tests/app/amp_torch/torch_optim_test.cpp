#include <doctest/doctest.h>
#include <torch/torch.h>

#include <amp_torch/torch_optim.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace {

struct Net : torch::nn::Module {
  torch::nn::Linear fc = register_module("fc", torch::nn::Linear(4, 3));
  torch::nn::LayerNorm norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({3})));
  torch::Tensor forward(const torch::Tensor& x) { return norm(fc(x.to(fc->weight.scalar_type()))).to(torch::kFloat); }
};

std::shared_ptr<Net> make_net() {
  torch::manual_seed(3);
  return std::make_shared<Net>();
}
torch::Tensor loss_of(Net& net, int i) {
  torch::manual_seed(static_cast<std::uint64_t>(i));
  return torch::mse_loss(net.forward(torch::randn({6, 4})), torch::randn({6, 3}));
}

/// A plain loop of LibTorch against the same loop through the adapter at O0, where the bits must agree.
template <class Optimizer, class Options>
void check_same_as_plain(const Options& options) {
  const auto plain = make_net(), adapted = make_net();
  const auto groups = [&](Net& net) {
    return std::vector<torch::optim::OptimizerParamGroup>{
        torch::optim::OptimizerParamGroup({net.fc->weight, net.fc->bias}),
        torch::optim::OptimizerParamGroup(net.norm->parameters(),
                                          std::make_unique<Options>(Options(options).lr(1e-3)))};
  };
  Optimizer a(groups(*plain), options), b(groups(*adapted), options);
  auto session = amp_torch::initialize<amp::O0>(*adapted, b);
  for (int i = 0; i < 5; ++i) {
    a.zero_grad();
    loss_of(*plain, i).backward();
    a.step();
    amp::scale_loss(loss_of(*adapted, i), session, [](const at::Tensor& scaled) { scaled.backward(); });
    CHECK(session.step() == amp::Verdict::apply);
    session.zero_grad();
  }
  for (const auto& p : plain->named_parameters()) {
    CAPTURE(p.key());
    CHECK(torch::equal(p.value(), adapted->named_parameters()[p.key()]));
  }
}

}  // namespace

TEST_SUITE("amp_torch/torch_optim") {
  TEST_CASE("B59 SGD, Adam and AdamW of LibTorch work out of the box, parameter groups included") {
    check_same_as_plain<torch::optim::SGD>(torch::optim::SGDOptions(1e-2).momentum(0.9));
    check_same_as_plain<torch::optim::Adam>(torch::optim::AdamOptions(1e-2).weight_decay(0.1));
    check_same_as_plain<torch::optim::AdamW>(torch::optim::AdamWOptions(1e-2).weight_decay(0.1));
  }
  TEST_CASE("at O2 the optimizer steps fp32 masters, which round into the weights") {
    const auto net = make_net();
    torch::optim::AdamW adam(net->parameters(), torch::optim::AdamWOptions(1e-4));
    auto session = amp_torch::initialize<amp::O2>(*net, adam);
    CHECK((net->fc->weight.scalar_type() == at::kHalf));
    const at::Tensor master = adam.param_groups()[0].params()[0];
    CHECK((master.scalar_type() == at::kFloat));
    for (int i = 0; i < 4; ++i) {
      amp::scale_loss(loss_of(*net, i), session, [](const at::Tensor& scaled) { scaled.backward(); });
      CHECK(amp::clip_grad_norm(session, 1.0) > 0);
      session.step();
      session.zero_grad();
    }
    CHECK(torch::equal(net->fc->weight, master.to(at::kHalf)));
    CHECK_FALSE(torch::equal(master, master.to(at::kHalf).to(at::kFloat)));
  }
  TEST_CASE("an overflow skips, halves the scale and names the tensor, a step on scaled gradients is an error") {
    const auto net = make_net();
    torch::optim::SGD sgd(net->parameters(), 0.1);
    auto session = amp_torch::initialize<amp::O2>(
        *net, sgd, amp_torch::init_options<amp::DynamicScale>{.scale = {.init = 1024.F}});
    const auto before = net->fc->weight.clone();
    amp::scale_loss(loss_of(*net, 0), session, [&](const at::Tensor& scaled) {
      scaled.backward();
      net->fc->bias.mutable_grad()[1] = std::numeric_limits<float>::quiet_NaN();
    });
    CHECK(session.overflow() == "fc.bias");
    CHECK(session.step() == amp::Verdict::skip);
    CHECK(session.loss_scale() == 512.F);
    CHECK(torch::equal(net->fc->weight, before));
    session.zero_grad();
    amp::scale_loss(loss_of(*net, 0), session, [](const at::Tensor& scaled) { scaled.backward(); },
                    {.delay_unscale = true});
    CHECK_THROWS_AS(session.step(), amp::error);
  }
  TEST_CASE("S9 several scopes before a step give the step of their sum, with masters and without") {
    const auto stepped = [](auto level, const torch::Tensor& loss_factors, bool clip) {
      constexpr amp::OptLevel L = decltype(level)::value;
      struct One : torch::nn::Module {
        torch::Tensor w = register_parameter("w", torch::zeros({2}));
      } net;
      torch::optim::SGD sgd(net.parameters(), 1.);
      auto session = amp_torch::initialize<L>(
          net, sgd, amp_torch::init_options<amp::DynamicScale>{.scale = {.init = 64.F, .window = 1}});
      for (std::int64_t i = 0; i < loss_factors.numel(); ++i) {  // the scale doubles after each
        amp::scale_loss((net.w.sum() * loss_factors[i].item<float>()).to(at::kFloat), session,
                        [](const at::Tensor& s) { s.backward(); });
        if (clip && i == 1) amp::clip_grad_norm(session, std::sqrt(2.) / 2.);
      }
      session.step();
      return net.w.to(at::kFloat)[0].template item<float>();
    };
    const auto check = [&]<amp::OptLevel L>() {
      const std::integral_constant<amp::OptLevel, L> level;
      CHECK(stepped(level, torch::tensor({1.F, 2.F, 4.F}), false) == -7.F);
      CHECK(stepped(level, torch::tensor({1.F, 2.F, 0.F}), true) == doctest::Approx(-0.5).epsilon(1e-3));
      CHECK(stepped(level, torch::tensor({1.F, 2.F, 4.F}), true) == doctest::Approx(-4.5).epsilon(1e-3));
    };
    check.operator()<amp::O0.with(amp::scaling::dynamic)>();
    check.operator()<amp::O2>();
    check.operator()<amp::O3.with(amp::scaling::dynamic)>();
  }
  TEST_CASE("S7 S8 gradients that a step used, or that an overflow spoiled, are in no later step of a master") {
    struct One : torch::nn::Module {
      torch::Tensor w = register_parameter("w", torch::zeros({2}));
    } net;
    torch::optim::SGD sgd(net.parameters(), 1.);
    auto session =
        amp_torch::initialize<amp::O2>(net, sgd, amp_torch::init_options<amp::DynamicScale>{.scale = {.init = 64.F}});
    const auto scope = [&](float factor, amp::scale_options o = {}) {
      amp::scale_loss((net.w.sum() * factor).to(at::kFloat), session, [](const at::Tensor& s) { s.backward(); }, o);
    };
    scope(1.F);
    CHECK(session.step() == amp::Verdict::apply);
    scope(std::numeric_limits<float>::infinity(), {.delay_overflow_check = true});
    CHECK(session.loss_scale() == 64.F);
    scope(1.F);
    CHECK(session.loss_scale() == 32.F);
    CHECK(session.overflow() == "w");
    CHECK(session.step() == amp::Verdict::skip);
    CHECK(net.w[0].item<float>() == -1.F);
    scope(2.F, {.delay_unscale = true});
    scope(2.F);
    CHECK(session.step() == amp::Verdict::apply);
    CHECK(net.w[0].item<float>() == -5.F);
    CHECK_THROWS_AS(scope(1.F, {.optimizers = {1}}), amp::error);
  }
  TEST_CASE("S13 the overflow flag is combined over ranks, and options that mean nothing here are refused") {
    const auto net = make_net();
    torch::optim::SGD sgd(net->parameters(), 0.1);
    using Options = amp_torch::init_options<amp::DynamicScale>;
    CHECK_THROWS_AS(amp_torch::initialize<amp::O0>(*net, sgd, Options{.num_losses = 2}), amp::error);
    CHECK_THROWS_AS(amp_torch::initialize<amp::O0>(*net, sgd, Options{.storage = {.masters = amp::masters::kahan}}),
                    amp::error);
    CHECK_THROWS_AS(amp_torch::initialize<amp::O0>(*net, sgd, Options{.storage = {.moments = amp::dtype::bf16}}),
                    amp::error);
    int calls = 0;
    auto session = amp_torch::initialize<amp::O0>(
        *net, sgd, Options{.scale = {.init = 64.F}, .any_reduce = [&](bool) { return ++calls == 1; }});
    for (const auto verdict : {amp::Verdict::skip, amp::Verdict::apply}) {
      amp::scale_loss(loss_of(*net, 0), session, [](const at::Tensor& scaled) { scaled.backward(); });
      CHECK(session.step() == verdict);
      session.zero_grad();
    }
    CHECK(calls == 2);
    CHECK(session.loss_scale() == 32.F);
  }
  TEST_CASE("an optimizer over another model is refused") {
    const auto net = make_net(), other = make_net();
    torch::optim::SGD foreign(other->parameters(), 0.1);
    CHECK_THROWS_AS(amp_torch::initialize<amp::O2>(*net, foreign), amp::error);
  }
}
