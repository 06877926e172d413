#include <doctest/doctest.h>
#include <torch/torch.h>

#include <amp/core/check.hpp>
#include <amp_torch/nn.hpp>
#include <amp_torch/op_cast.hpp>
#include <vector>

namespace {

using amp_torch::activation;

bool has(const torch::Tensor& t, at::ScalarType type) { return t.scalar_type() == type; }
torch::Tensor leaf(torch::Tensor t, at::ScalarType type) { return t.to(type).detach().requires_grad_(); }

/// Largest difference relative to 1 + magnitude.
double apart(const torch::Tensor& a, const torch::Tensor& b) {
  const auto x = a.to(torch::kDouble), y = b.to(torch::kDouble);
  return ((x - y).abs() / (1 + y.abs())).max().item<double>();
}
double rounding(at::ScalarType type) { return type == torch::kBFloat16 ? 0.006 : type == torch::kHalf ? 0.001 : 5e-6; }

/// The same layer on leaves of its own, in the given type and in double, with a gradient of random values.
struct Run {
  torch::Tensor y;
  std::vector<torch::Tensor> grads;
};
template <class F>
Run run(const F& f, const std::vector<torch::Tensor>& inputs, std::uint64_t seed = 7) {
  Run r;
  r.y = f(inputs);
  torch::manual_seed(seed);
  r.y.backward(torch::randn(r.y.sizes()).to(torch::kBFloat16).to(r.y.scalar_type()));
  for (const auto& t : inputs) r.grads.push_back(t.defined() ? t.grad() : torch::Tensor());
  return r;
}
std::vector<torch::Tensor> in_double(const std::vector<torch::Tensor>& inputs) {
  std::vector<torch::Tensor> wide;
  for (const auto& t : inputs) wide.push_back(t.defined() ? leaf(t.detach(), torch::kDouble) : t);
  return wide;
}

torch::Tensor reference(const torch::Tensor& pre, activation f) {
  switch (f) {
    case activation::relu:
      return torch::relu(pre);
    case activation::sigmoid:
      return torch::sigmoid(pre);
    case activation::gelu_erf:
      return torch::gelu(pre, "none");
    case activation::gelu_tanh:
      return torch::gelu(pre, "tanh");
    default:
      return pre;
  }
}

}  // namespace

TEST_SUITE("amp_torch/nn") {
  TEST_CASE("K1 K3 layer_norm and its gradients are those of at::layer_norm, in fp32, fp16 and bf16") {
    torch::manual_seed(1);
    for (const auto type : {torch::kFloat, torch::kHalf, torch::kBFloat16}) {
      for (const bool efficient : {false, true}) {
        const std::vector<torch::Tensor> in{leaf(torch::randn({5, 7, 96}), type), leaf(torch::rand({96}) + 0.5, type),
                                            leaf(torch::randn({96}), type)};
        const auto ours = run(
            [&](const auto& t) {
              return amp_torch::layer_norm(t[0], {96}, t[1], t[2], {.eps = 1e-6, .memory_efficient = efficient});
            },
            in);
        const auto want =
            run([](const auto& t) { return torch::layer_norm(t[0], {96}, t[1], t[2], 1e-6); }, in_double(in));
        CHECK(has(ours.y, type));
        CHECK((ours.y.sizes() == in[0].sizes()));
        CHECK(apart(ours.y, want.y) < rounding(type));
        // From a rounded output xhat is as far off as the rounding; sums over rows add that up.
        const double room = efficient && type != torch::kFloat ? 20 : efficient ? 4 : 1;
        for (std::size_t k = 0; k < 3; ++k) {
          CHECK(has(ours.grads[k], type));
          CHECK(apart(ours.grads[k], want.grads[k]) < room * rounding(type));
        }
      }
    }
  }

  TEST_CASE("K2 B20 low input with fp32 weights gives the type of the input, or of the weights where asked") {
    torch::manual_seed(2);
    const std::vector<torch::Tensor> in{leaf(torch::randn({11, 40}), torch::kBFloat16),
                                        leaf(torch::rand({40}) + 0.5, torch::kFloat),
                                        leaf(torch::randn({40}), torch::kFloat)};
    const auto want = run([](const auto& t) { return torch::layer_norm(t[0], {40}, t[1], t[2]); }, in_double(in));
    for (const bool mixed : {false, true}) {
      for (const auto& t : in) t.mutable_grad() = torch::Tensor();
      const auto ours =
          run([&](const auto& t) { return amp_torch::layer_norm(t[0], {40}, t[1], t[2], {.mixed = mixed}); }, in);
      const auto type = mixed ? torch::kFloat : torch::kBFloat16;
      CHECK(has(ours.y, type));
      CHECK(apart(ours.y, want.y) < rounding(type));
      CHECK(has(ours.grads[0], torch::kBFloat16));
      CHECK(has(ours.grads[1], torch::kFloat));
      CHECK(apart(ours.grads[0], want.grads[0]) < rounding(torch::kBFloat16));
      CHECK(apart(ours.grads[1], want.grads[1]) < 1e-5);
      CHECK(apart(ours.grads[2], want.grads[2]) < 1e-5);
    }
  }

  TEST_CASE("K6 B38 non-contiguous input, a shape of two dimensions, and no weights at all") {
    torch::manual_seed(3);
    const std::vector<torch::Tensor> in{leaf(torch::randn({6, 4, 9}), torch::kFloat)};
    const auto turned = [](const auto& t) { return t[0].transpose(0, 2); };
    const auto ours = run([&](const auto& t) { return amp_torch::layer_norm(turned(t), {4, 6}); }, in);
    const auto want = run([&](const auto& t) { return torch::layer_norm(turned(t), {4, 6}); }, in_double(in));
    CHECK(apart(ours.y, want.y) < 5e-6);
    CHECK(apart(ours.grads[0], want.grads[0]) < 5e-6);
    CHECK_THROWS_WITH_AS(amp_torch::layer_norm(in[0], {4}), doctest::Contains("not the normalised shape"), amp::error);
  }

  TEST_CASE("G1 linear with every activation and its gradients are those of LibTorch's operators") {
    torch::manual_seed(4);
    for (const auto type : {torch::kFloat, torch::kBFloat16}) {
      for (const auto f :
           {activation::none, activation::relu, activation::sigmoid, activation::gelu_erf, activation::gelu_tanh}) {
        for (const bool with_bias : {true, false}) {
          const std::vector<torch::Tensor> in{leaf(torch::randn({3, 13, 30}), type),
                                              leaf(torch::randn({21, 30}) * 0.3, type),
                                              with_bias ? leaf(torch::randn({21}), type) : torch::Tensor()};
          const auto ours = run([&](const auto& t) { return amp_torch::linear(t[0], t[1], t[2], f); }, in);
          const auto want =
              run([&](const auto& t) { return reference(torch::linear(t[0], t[1], t[2]), f); }, in_double(in));
          CAPTURE(static_cast<int>(f));
          CAPTURE(static_cast<int>(type));
          CHECK(has(ours.y, type));
          // The kept pre-activation is rounded, and a ReLU's slope near 0 may flip with it.
          const double room = type == torch::kFloat ? 3 : f == activation::relu ? 30 : 6;
          CHECK(apart(ours.y, want.y) < room * rounding(type));
          for (std::size_t k = 0; k < (with_bias ? 3u : 2u); ++k) {
            CHECK(has(ours.grads[k], type));
            CHECK(apart(ours.grads[k], want.grads[k]) < room * rounding(type));
          }
        }
      }
    }
  }

  TEST_CASE("only what requires a gradient gets one, and a second derivative is refused in words") {
    const auto x = leaf(torch::randn({4, 8}), torch::kFloat);
    const auto w = torch::randn({5, 8}), gamma = torch::ones({8});
    amp_torch::linear(x, w, {}, activation::gelu_erf).sum().backward();
    amp_torch::layer_norm(x, {8}, gamma).sum().backward();
    CHECK(x.grad().defined());
    CHECK_FALSE(w.grad().defined());
    const auto y = amp_torch::layer_norm(x, {8}, gamma).pow(2).sum();
    CHECK_THROWS_WITH(torch::autograd::grad({y}, {x}, {}, true, true), doctest::Contains("no second derivative"));
  }

  TEST_CASE("double and empty tensors take LibTorch's own operators") {
    const auto x = torch::randn({3, 6}, torch::kDouble), w = torch::randn({4, 6}, torch::kDouble);
    CHECK(torch::equal(amp_torch::layer_norm(x, {6}), torch::layer_norm(x, {6})));
    for (const auto f :
         {activation::none, activation::relu, activation::sigmoid, activation::gelu_erf, activation::gelu_tanh})
      CHECK(torch::equal(amp_torch::linear(x, w, {}, f), reference(torch::linear(x, w), f)));
    CHECK((amp_torch::layer_norm(torch::randn({0, 6}), {6}).sizes() == at::IntArrayRef({0, 6})));
    CHECK((amp_torch::linear(torch::randn({0, 6}), torch::randn({4, 6})).sizes() == at::IntArrayRef({0, 4})));
  }
}
