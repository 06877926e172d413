#include <doctest/doctest.h>
#include <torch/torch.h>

#include <amp_torch/cast.hpp>
#include <amp_torch/params.hpp>
#include <amp_torch/state_dict.hpp>
#include <string>

#include "support/errors.hpp"

using test_support::message_of;

namespace {

/// The message of the amp::error that `f` throws, or an empty text.

struct Net : torch::nn::Module {
  torch::nn::Linear fc = register_module("fc", torch::nn::Linear(3, 2));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(2));
};

}  // namespace

TEST_SUITE("amp_torch/params") {
  TEST_CASE("a parameter is seen in place, its gradient where it lies at the time of asking") {
    auto w = torch::ones({2, 3}, torch::requires_grad());
    auto p = amp_torch::to_param("w", w);
    CHECK(p.value == w.data_ptr());
    CHECK(p.size == 6);
    CHECK(p.type == amp::dtype::fp32);
    CHECK_FALSE(p.has_grad());
    (w * 2).sum().backward();
    amp_torch::refresh_grad(p, w);
    CHECK(p.grad == w.grad().data_ptr());
    w.mutable_grad().reset();
    amp_torch::refresh_grad(p, w);
    CHECK_FALSE(p.has_grad());
  }
  TEST_CASE("errors name the parameter: double, sparse value, sparse gradient, strided view") {
    const auto to_param = [](const char* name, const torch::Tensor& t) {
      return message_of([&] { static_cast<void>(amp_torch::to_param(name, t)); });
    };
    CHECK(to_param("layer.w", torch::ones({2}, torch::kDouble)).find("\"layer.w\"") != std::string::npos);
    CHECK(to_param("ids", torch::ones({2}, torch::kLong)).find("\"ids\"") != std::string::npos);
    CHECK(to_param("s", torch::eye(3).to_sparse()).find("\"s\" is sparse") != std::string::npos);
    CHECK(to_param("v", torch::ones({4, 4}).slice(1, 0, 2)).find("\"v\" is a strided view") != std::string::npos);

    auto table = torch::nn::Embedding(torch::nn::EmbeddingOptions(5, 2).sparse(true));
    table(torch::tensor({1, 2})).sum().backward();
    auto p = amp_torch::to_param("table.weight", table->weight);
    const auto text = message_of([&] { amp_torch::refresh_grad(p, table->weight); });
    CHECK(text.find("\"table.weight\" has a sparse gradient") != std::string::npos);
  }
  TEST_CASE("a gradient of another dense layout is brought into the parameter's") {
    auto w = torch::randn({2, 3, 2, 2}).contiguous(torch::MemoryFormat::ChannelsLast).requires_grad_();
    const auto g = torch::randn({2, 3, 2, 2});
    w.mutable_grad() = g.clone();
    auto p = amp_torch::to_param("w", w);
    amp_torch::refresh_grad(p, w);
    CHECK(w.grad().strides() == w.strides());
    CHECK(torch::equal(w.grad(), g));
    CHECK(p.grad == w.grad().data_ptr());
  }
  TEST_CASE("the stride of a dimension of length 1 makes no copy") {
    auto w = torch::randn({4, 3, 1, 1}).contiguous(torch::MemoryFormat::ChannelsLast).requires_grad_();
    const auto g = torch::randn({4, 3, 1, 1});
    w.mutable_grad() = g;
    auto p = amp_torch::to_param("w", w);
    amp_torch::refresh_grad(p, w);
    CHECK(p.grad == g.data_ptr());
  }
  TEST_CASE("a source follows gradients that backward allocates anew, and clears them") {
    auto a = torch::ones({2}, torch::requires_grad()), b = torch::ones({3}, torch::requires_grad());
    amp_torch::TorchParams source({{"a", a}, {"b", b}});
    (a * 3).sum().backward();
    CHECK(source.refresh()[0].grad == a.grad().data_ptr());
    CHECK_FALSE(source.refresh()[1].has_grad());
    source.zero_grad(0, amp::zeroing::fill);
    source.zero_grad(1, amp::zeroing::fill);
    CHECK(torch::equal(a.grad(), torch::zeros({2})));
    CHECK_FALSE(b.grad().defined());
    source.zero_grad(0, amp::zeroing::release);
    CHECK_FALSE(source.refresh()[0].has_grad());
    (a * b[0]).sum().backward();
    CHECK(source.refresh()[1].grad == b.grad().data_ptr());
    CHECK(source.refresh()[1].value == b.data_ptr());
  }
  TEST_CASE("an fp32 gradient of a low parameter is accepted") {
    auto w = torch::ones({3}, torch::kBFloat16).requires_grad_();
    w.mutable_grad() = torch::ones({3});
    auto p = amp_torch::to_param("w", w);
    amp_torch::refresh_grad(p, w);
    CHECK(p.type == amp::dtype::bf16);
    CHECK(p.grad_type == amp::dtype::fp32);
  }
}

TEST_SUITE("amp_torch/model_state") {
  TEST_CASE("the state of a low model is fp32 under unchanged names, integers as they are") {
    for (const auto type : {torch::kHalf, torch::kBFloat16}) {
      Net net;
      const auto before = amp_torch::state_dict(net);
      amp_torch::cast_model(net, type);
      const auto state = amp_torch::state_dict(net);
      CHECK(state.size() == before.size());
      for (const auto& [name, t] : state) {
        CAPTURE(name);
        REQUIRE(before.contains(name));
        CHECK((t.scalar_type() == before.at(name).scalar_type()));
        CHECK(torch::equal(t, name.starts_with("fc") ? before.at(name).to(type).to(torch::kFloat) : before.at(name)));
      }
    }
  }
  TEST_CASE("a state loads into a model of any level and rounds to its type") {
    Net source, low, wide;
    amp_torch::cast_model(low, torch::kBFloat16, {.keep_batchnorm_fp32 = false});
    const auto state = amp_torch::state_dict(source);
    CHECK(amp_torch::load_state_dict(low, state).loaded == state.size());
    amp_torch::load_state_dict(wide, state);
    CHECK(torch::equal(low.fc->weight, source.fc->weight.to(torch::kBFloat16)));
    CHECK(torch::equal(wide.fc->weight, source.fc->weight));
    CHECK(low.fc->weight.requires_grad());
  }
  TEST_CASE("what does not fit is named and nothing is written") {
    Net net;
    auto state = amp_torch::state_dict(net);
    const auto kept = net.fc->weight.clone();
    state.at("fc.weight").zero_();
    auto short_state = state, long_state = state, odd_state = state;
    short_state.erase("fc.bias");
    long_state.emplace("extra", torch::ones({1}));
    odd_state.at("fc.bias") = torch::ones({7});
    const auto load = [&](const amp_torch::StateDict& s) {
      return message_of([&] { amp_torch::load_state_dict(net, s); });
    };
    CHECK(load(short_state).find("lacks \"fc.bias\"") != std::string::npos);
    CHECK(load(long_state).find("holds \"extra\"") != std::string::npos);
    CHECK(load(odd_state).find("\"fc.bias\" differs") != std::string::npos);
    CHECK(torch::equal(net.fc->weight, kept));
    const auto report = amp_torch::load_state_dict(net, short_state, /*strict=*/false);
    CHECK(report.missing == std::vector<std::string>{"fc.bias"});
    CHECK(torch::equal(net.fc->weight, torch::zeros_like(kept)));
  }
}
