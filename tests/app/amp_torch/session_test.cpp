#include <doctest/doctest.h>
#include <torch/torch.h>

#include <amp_torch/amp_torch.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "support/errors.hpp"

using test_support::message_of;

namespace {

struct Net : torch::nn::Module {
  torch::nn::Linear first = register_module("first", torch::nn::Linear(8, 16));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(16));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(16, 2));

  torch::Tensor forward(const torch::Tensor& x) {
    const auto h = first(x.to(first->weight.scalar_type()));
    const auto n = norm(h.to(norm->weight.scalar_type())).to(h.scalar_type());
    return last(torch::relu(n)).to(torch::kFloat);
  }
};

std::shared_ptr<Net> make_net() {
  torch::manual_seed(3);
  return std::make_shared<Net>();
}

std::vector<std::pair<torch::Tensor, torch::Tensor>> data(int batches, int rows) {
  torch::manual_seed(4);
  std::vector<std::pair<torch::Tensor, torch::Tensor>> out;
  for (int i = 0; i < batches; ++i) {
    const auto x = torch::randn({rows, 8});
    out.emplace_back(x, torch::stack({x.sum(1), x.select(1, 0)}, 1));
  }
  return out;
}

/// The loop of the README over a level; returns the loss of each step.
template <amp::OptLevel L>
std::vector<float> train(Net& net, int steps) {
  std::vector<float> losses;
  // [snippet: torch loop]
  auto session = amp_torch::initialize<L>(net, amp::Adam{.lr = 1e-2});
  const int accumulate = 2;
  int micro = 1;
  for (const auto& [x, y] : data(2 * steps, 16)) {
    const bool boundary = micro++ % accumulate == 0;
    at::Tensor loss;
    {
      const auto region = amp_torch::forward_region<L>();
      loss = torch::mse_loss(net.forward(x), y);
    }
    amp::scale_loss(loss, session, [&](const at::Tensor& scaled) { scaled.backward(); }, {.delay_unscale = !boundary});
    if (!boundary) continue;
    amp::clip_grad_norm(session, 5.0);
    if (session.step() == amp::Verdict::skip) MESSAGE("skipped at loss scale " << session.loss_scale());
    session.zero_grad();
    losses.push_back(loss.template item<float>());
  }
  // [end]
  return losses;
}

float mean_of(const std::vector<float>& v, std::size_t from, std::size_t to) {
  float sum = 0;
  for (std::size_t i = from; i < to; ++i) sum += v[i];
  return sum / static_cast<float>(to - from);
}

template <amp::OptLevel L>
void check_learns() {
  const auto net = make_net();
  net->train();
  const auto losses = train<L>(*net, 60);
  REQUIRE(losses.size() == 60);
  CHECK(mean_of(losses, 50, 60) < 0.5F * mean_of(losses, 0, 10));
}

}  // namespace

TEST_SUITE("amp_torch/session") {
  TEST_CASE("B22 the loop of the README learns at O0, O1, O2 and O3 in fp16 and bf16") {
    check_learns<amp::O0>();
    check_learns<amp::O1>();
    check_learns<amp::O1_bf16>();
    check_learns<amp::O2>();
    check_learns<amp::O2_bf16>();
    check_learns<amp::O3_bf16>();
  }
  TEST_CASE("L4 the level decides the types: O1 leaves them, O2 keeps batch norms, O3 does not") {
    const auto types_of = [](const Net& net) {
      return std::pair(net.first->weight.scalar_type(), net.norm->weight.scalar_type());
    };
    using Types = std::pair<at::ScalarType, at::ScalarType>;
    auto a = make_net(), b = make_net(), c = make_net();
    const auto o1 = amp_torch::initialize<amp::O1>(*a, amp::Adam{});
    const auto o2 = amp_torch::initialize<amp::O2>(*b, amp::Adam{});
    const auto o3 = amp_torch::initialize<amp::O3_bf16>(*c, amp::Adam{});
    CHECK((types_of(*a) == Types(at::kFloat, at::kFloat)));
    CHECK((types_of(*b) == Types(at::kHalf, at::kFloat)));
    CHECK((types_of(*c) == Types(at::kBFloat16, at::kBFloat16)));
    CHECK(&o2.model().get() == b.get());
  }
  TEST_CASE("an overflow names its tensor, halves the scale and moves nothing") {
    const auto net = make_net();
    auto session = amp_torch::initialize<amp::O2>(*net, amp::Adam{.lr = 1e-2});
    const auto before = amp_torch::state_dict(*net);
    const float scale = session.loss_scale();
    const auto loss = torch::mse_loss(net->forward(torch::randn({4, 8})), torch::zeros({4, 2}));
    amp::scale_loss(loss, session, [&](const at::Tensor& scaled) {
      scaled.backward();
      net->last->weight.mutable_grad().view(-1)[3] = std::numeric_limits<float>::infinity();
    });
    CHECK(session.overflow() == "last.weight");
    CHECK(session.step() == amp::Verdict::skip);
    session.zero_grad();
    CHECK(session.loss_scale() == scale / 2);
    CHECK(torch::equal(amp_torch::state_dict(*net).at("first.weight"), before.at("first.weight")));
    CHECK(session.optimizer().group(0).step == 0);
  }
  TEST_CASE("B30 clipping acts on unscaled gradients: scale 1 and scale 65536 give the same norm and first update") {
    double norms[2];
    at::Tensor weights[2];
    int i = 0;
    for (const float scale : {1.F, 65536.F}) {
      const auto net = make_net();
      auto session = amp_torch::initialize<amp::O2_bf16>(
          *net, amp::Sgd{.lr = 1e-2}, amp_torch::init_options<amp::AnyScale>{.scale = amp::StaticScale{scale}});
      const auto [x, y] = data(1, 16).front();
      amp::scale_loss(torch::mse_loss(net->forward(x), y) * 100, session, [](const at::Tensor& s) { s.backward(); });
      norms[i] = amp::clip_grad_norm(session, 1.0);
      session.step();
      weights[i++] = amp_torch::state_dict(*net).at("first.weight");
    }
    CHECK(norms[0] > 1.0);
    CHECK(norms[0] == doctest::Approx(norms[1]).epsilon(1e-6));
    CHECK(torch::equal(weights[0], weights[1]));
  }
  TEST_CASE("B44 updates far below a bf16 weight's step add up in the master") {
    struct One : torch::nn::Module {
      torch::Tensor w = register_parameter("w", torch::ones({4}));
    };
    const auto after = [](auto level_tag) {
      One net;
      auto session = amp_torch::initialize<decltype(level_tag)::value>(net, amp::Sgd{.lr = 1e-4});
      for (int i = 0; i < 1000; ++i) {
        amp::scale_loss(-net.w.sum().to(at::kFloat), session, [](const at::Tensor& s) { s.backward(); });
        session.step();
        session.zero_grad();
      }
      return net.w.to(at::kFloat)[0].item<float>();
    };
    CHECK(after(std::integral_constant<amp::OptLevel, amp::O2_bf16>{}) == doctest::Approx(1.1).epsilon(4e-3));
    CHECK(after(std::integral_constant<amp::OptLevel, amp::O3_bf16>{}) == 1.F);
  }
  TEST_CASE("B25 a parameter that is not the module's is refused by name") {
    const auto net = make_net(), other = make_net();
    const std::vector<amp_torch::ParamGroup<amp::Sgd>> groups{{{{"first.weight", other->first->weight}}, amp::Sgd{}}};
    const auto text = message_of([&] { amp_torch::initialize<amp::O2_bf16>(*net, groups); });
    CHECK(text.find("\"first.weight\" of the optimizer is none of the module's") != std::string::npos);
  }
  TEST_CASE("L6 a model that is low already, or double, is refused by name") {
    const auto net = make_net();
    net->last->to(torch::kHalf);
    const auto low = message_of([&] { amp_torch::initialize<amp::O2>(*net, amp::Adam{}); });
    CHECK(low.find("comes in Half already (parameter \"last.") != std::string::npos);
    const auto wide = make_net();
    wide->last->to(torch::kDouble);
    const auto text = message_of([&] { amp_torch::initialize<amp::O0>(*wide, amp::Adam{}); });
    CHECK(text.find("parameter \"last.") != std::string::npos);
    CHECK(text.find("Double") != std::string::npos);
  }
  TEST_CASE("a tied parameter is stepped once") {
    struct Tied : torch::nn::Module {
      torch::Tensor w = register_parameter("w", torch::ones({2}));
      torch::Tensor again = register_parameter("again", w);
    };
    Tied net;
    auto session = amp_torch::initialize<amp::O0>(net, amp::Sgd{.lr = 1});
    amp::scale_loss(net.w.sum(), session, [](const at::Tensor& s) { s.backward(); });
    session.step();
    CHECK(torch::equal(net.w, torch::zeros({2})));
  }
  TEST_CASE("B48 a session's state goes on bit for bit, masters and moments included") {
    const auto batches = data(20, 16);
    const auto run = [&](Net& net, auto& session, int from, int to) {
      for (int i = from; i < to; ++i) {
        amp::scale_loss(torch::mse_loss(net.forward(batches[i].first), batches[i].second), session,
                        [](const at::Tensor& s) { s.backward(); });
        session.step();
        session.zero_grad();
      }
    };
    const auto whole = make_net(), part = make_net(), rest = make_net();
    auto a = amp_torch::initialize<amp::O2_bf16>(*whole, amp::Adam{.lr = 1e-2});
    auto b = amp_torch::initialize<amp::O2_bf16>(*part, amp::Adam{.lr = 1e-2});
    auto c = amp_torch::initialize<amp::O2_bf16>(*rest, amp::Adam{.lr = 1e-2});
    run(*whole, a, 0, 20);
    run(*part, b, 0, 10);
    amp_torch::load_state_dict(*rest, amp_torch::state_dict(*part));  // buffers, and weights of another session
    c.load(b.state());
    run(*rest, c, 10, 20);
    CHECK((a.state() == c.state()));
    for (const auto& [name, t] : amp_torch::state_dict(*whole)) {
      CAPTURE(name);
      CHECK(torch::equal(t, amp_torch::state_dict(*rest).at(name)));
    }
  }
}
