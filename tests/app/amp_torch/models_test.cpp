#include <doctest/doctest.h>
#include <torch/torch.h>

#include <amp_torch/amp_torch.hpp>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/errors.hpp"

using test_support::has;
using test_support::message_of;

namespace {

/// Tells the types of what its forward gets, and gives them back in a map.
struct Net : torch::nn::Module {
  torch::nn::Linear fc = register_module("fc", torch::nn::Linear(4, 2));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(2));
  using Batch = std::map<std::string, torch::Tensor>;
  std::optional<at::ScalarType> seen;

  Batch forward(const Batch& batch, const torch::Tensor& ids, int scale) {
    seen = batch.at("x").scalar_type();
    return {{"y", fc(batch.at("x")) * scale}, {"ids", ids}};
  }
};
struct Scalar : torch::nn::Module {
  torch::Tensor w = register_parameter("w", torch::ones({2}));
};
struct DataParallelNet : torch::nn::Module {
  torch::nn::Linear fc = register_module("fc", torch::nn::Linear(2, 2));
};

template <amp::OptLevel L>
Net::Batch run(Net& net, amp_torch::forward_options o = {}) {
  const amp_torch::ModelForward<L, Net> forward(net, std::move(o));
  return forward(Net::Batch{{"x", torch::ones({3, 4})}}, torch::ones({3}, torch::kLong), 2);
}

}  // namespace

TEST_SUITE("amp_torch/models") {
  TEST_CASE("L6 several models and optimizers are prepared in one call, and only those of an overflow skip") {
    Scalar a, b;
    auto session = amp_torch::initialize<amp::O2>(
        std::tie(a, b), std::tuple{amp::Sgd{.lr = 1.}, amp::Adam{.lr = 0.5}},
        amp_torch::init_options<amp::DynamicScale>{.scale = {.init = 64.F}, .num_losses = 2});
    static_assert(std::is_same_v<std::decay_t<decltype(session.model())>, std::tuple<Scalar&, Scalar&>>);
    CHECK(&std::get<1>(session.model()) == &b);
    amp::scale_loss(a.w.sum(), session, [](const at::Tensor& s) { s.backward(); }, {.loss_id = 0, .optimizers = {0}});
    amp::scale_loss((b.w * std::numeric_limits<float>::infinity()).sum(), session,
                    [](const at::Tensor& s) { s.backward(); }, {.loss_id = 1, .optimizers = {1}});
    CHECK(session.overflow() == "1.w");
    CHECK(session.step() == amp::Verdict::skip);
    CHECK(torch::equal(a.w, torch::zeros({2}, torch::kHalf)));
    CHECK(torch::equal(b.w, torch::ones({2}, torch::kHalf)));
    CHECK(session.loss_scale(0) == 64.F);
    CHECK(session.loss_scale(1) == 32.F);
  }
  TEST_CASE("L6 models that come as a list are a list in the session, and one optimizer steps them all") {
    const std::vector<std::shared_ptr<Scalar>> nets{std::make_shared<Scalar>(), std::make_shared<Scalar>()};
    auto session = amp_torch::initialize<amp::O0>(nets, amp::Sgd{.lr = 1.});
    CHECK(session.model() == nets);
    amp::scale_loss(nets[0]->w.sum() + 2 * nets[1]->w.sum(), session, [](const at::Tensor& s) { s.backward(); });
    session.step();
    CHECK(torch::equal(nets[0]->w, torch::zeros({2})));
    CHECK(torch::equal(nets[1]->w, torch::full({2}, -1.)));
    CHECK(has(message_of([&] {
                (void)amp_torch::initialize<amp::O0>(nets, std::tuple{amp::Sgd{}, amp::Sgd{}, amp::Sgd{}});
              }),
              "give ParamGroups that say whose parameters are whose"));
  }
  TEST_CASE("L6 a model that comes wrapped, or low, is refused by name") {
    DataParallelNet wrapped;
    CHECK(has(message_of([&] { (void)amp_torch::initialize<amp::O2>(wrapped, amp::Sgd{}); }),
              "DataParallelNet; initialize the model inside"));
    Scalar low, fine;
    low.to(torch::kBFloat16);
    CHECK(has(message_of([&] { (void)amp_torch::initialize<amp::O1>(std::tie(fine, low), amp::Sgd{}); }),
              "parameter \"1.w\""));
    CHECK_NOTHROW((void)amp_torch::initialize<amp::O2_bf16>(low, amp::Sgd{},
                                                            amp_torch::init_options<amp::NoScale>{.allow_low = true}));
  }
  TEST_CASE("L6 an optimizer is prepared once, and again only after its session is gone") {
    Scalar net;
    torch::optim::SGD sgd(net.parameters(), 0.1);
    {
      const auto session = amp_torch::initialize<amp::O0>(net, sgd);
      CHECK(has(message_of([&] { (void)amp_torch::initialize<amp::O0>(net, sgd); }), "prepared already"));
    }
    CHECK_NOTHROW((void)amp_torch::initialize<amp::O0>(net, sgd));
    const std::vector<amp_torch::ParamGroup<amp::Sgd>> twice{{{{"w", net.w}}, amp::Sgd{}},
                                                             {{{"w", net.w}}, amp::Sgd{}}};
    CHECK(has(message_of([&] { (void)amp_torch::initialize<amp::O0>(net, twice); }), "\"w\" stands in two groups"));
  }
  TEST_CASE("L5 the forward of a cast model gets every floating tensor in the level's type and returns fp32") {
    Net net;
    (void)amp_torch::initialize<amp::O2_bf16>(net, amp::Sgd{});
    const auto out = run<amp::O2_bf16>(net);
    CHECK((net.seen == at::kBFloat16));
    CHECK((out.at("y").scalar_type() == at::kFloat));
    CHECK((out.at("ids").scalar_type() == at::kLong));
    const auto half = run<amp::O2_bf16>(net, {.cast_model_outputs = at::kHalf});
    CHECK((half.at("y").scalar_type() == at::kHalf));
  }
  TEST_CASE("L5 cast_model_outputs works without any cast of the model, and O1 runs the forward in its region") {
    Net net;
    CHECK((run<amp::O0>(net).at("y").scalar_type() == at::kFloat));
    CHECK((run<amp::O0>(net, {.cast_model_outputs = at::kHalf}).at("y").scalar_type() == at::kHalf));
    CHECK((run<amp::O1_bf16>(net).at("y").scalar_type() == at::kBFloat16));
    CHECK((net.seen == at::kFloat));
    CHECK((run<amp::O1_bf16>(net, {.cast_model_outputs = at::kFloat}).at("y").scalar_type() == at::kFloat));
    CHECK((run<amp::O1.with_enabled(false)>(net).at("y").scalar_type() == at::kFloat));
    CHECK_FALSE(amp_torch::OpCast::type().has_value());
  }
  TEST_CASE(
      "C4 weights that a step writes are cast anew in the region that goes on, also after a forward without backward") {
    if (!amp_torch::OpCast::own_lists()) return;
    torch::nn::Linear fc(torch::nn::LinearOptions(1, 1).bias(false));
    {
      const torch::NoGradGuard guard;
      fc->weight.zero_();
    }
    auto session = amp_torch::initialize<amp::O1_bf16>(*fc, amp::Sgd{.lr = 1.});
    const auto region = amp_torch::forward_region<amp::O1_bf16>();
    const auto x = torch::full({1, 1}, 1.5F);
    const auto validate = [&] {
      const torch::NoGradGuard guard;
      return 2.F * fc(x).item<float>();
    };
    amp::scale_loss((2 * fc(x)).sum(), session, [](const at::Tensor& s) { s.backward(); });
    CHECK(validate() == 0.F);  // fills the cache between backward and step
    session.step();
    CHECK(validate() == -9.F);
    session.load(session.state());
    session.zero_grad();
    amp::scale_loss((-2 * fc(x)).sum(), session, [](const at::Tensor& s) { s.backward(); });
    CHECK(validate() == -9.F);
    session.step();
    CHECK(validate() == 0.F);
    session.assign_master("weight", std::vector<float>{1.F});
    CHECK(validate() == 3.F);
  }
  TEST_CASE("L7 the state of a cast model lists low tensors as fp32, bf16 too, and loads into a model of any level") {
    Net low, other, wide;
    (void)amp_torch::initialize<amp::O3_bf16>(low, amp::Sgd{});
    (void)amp_torch::initialize<amp::O2>(other, amp::Sgd{});
    const auto state = amp_torch::state_dict(low);
    CHECK(state.size() == 7);
    for (const auto& [name, t] : state)
      CHECK((t.scalar_type() == (name == "norm.num_batches_tracked" ? at::kLong : at::kFloat)));
    amp_torch::load_state_dict(wide, state);
    amp_torch::load_state_dict(other, state);
    CHECK(torch::equal(wide.fc->weight, low.fc->weight.to(at::kFloat)));
    CHECK(torch::equal(other.fc->weight, low.fc->weight.to(at::kHalf)));
    CHECK((other.norm->weight.scalar_type() == at::kFloat));
  }
  TEST_CASE("L8 master_params gives the tensors that are stepped, in group order") {
    Net net;
    auto session = amp_torch::initialize<amp::O2_bf16>(net, amp::Sgd{});
    const auto params = amp::master_params(session);
    REQUIRE(params.size() == 4);
    CHECK(params[0].name == "fc.weight");
    CHECK(params[0].type == amp::dtype::fp32);
    CHECK(params[2].name == "norm.weight");
    CHECK(params[2].value == net.norm->weight.data_ptr());
  }
  TEST_CASE("C4 each backward of scale_loss drops the cast weights, inside of a region too") {
    if (!amp_torch::OpCast::own_lists()) return;
    Scalar net;
    auto session = amp_torch::initialize<amp::O1_bf16>(net, amp::Sgd{.lr = 1.});
    const auto region = amp_torch::forward_region<amp::O1_bf16>();
    const auto x = torch::ones({2}, torch::kBFloat16);
    for (int i = 1; i <= 2; ++i) {
      const auto y = torch::mv(net.w.unsqueeze(0), x);  // a view is no leaf: cast each time
      const auto z = torch::matmul(net.w, x);
      amp::scale_loss((y.sum() + z).to(torch::kFloat), session, [](const at::Tensor& s) { s.backward(); },
                      {.delay_unscale = i == 1});
      CHECK(amp_torch::OpCast::casts() == 3 * i);  // the view, the weight, and z for the sum
    }
    session.step();
    CHECK(torch::equal(net.w, torch::full({2}, -3.)));
  }
  TEST_CASE("M1 L7 state that torch's optimizer has already moves to the masters as fp32") {
    Scalar net, low;
    torch::optim::Adam adam(net.parameters(), torch::optim::AdamOptions(0.1));
    net.w.sum().backward();
    adam.step();
    auto session = amp_torch::initialize<amp::O2_bf16>(net, adam);
    const at::Tensor master = adam.param_groups()[0].params()[0];
    REQUIRE(adam.state().size() == 1);
    auto& state = static_cast<torch::optim::AdamParamState&>(*adam.state().at(master.unsafeGetTensorImpl()));
    CHECK(state.step() == 1);
    CHECK((state.exp_avg().scalar_type() == at::kFloat));
    session.zero_grad();
    amp::scale_loss(net.w.sum().to(at::kFloat), session, [](const at::Tensor& s) { s.backward(); });
    session.step();
    CHECK(state.step() == 2);
    CHECK(master[0].item<float>() == doctest::Approx(0.8).epsilon(1e-2));
    low.to(torch::kBFloat16);
    torch::optim::SGD sgd(low.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    low.w.sum().backward();
    sgd.step();
    auto second =
        amp_torch::initialize<amp::O2_bf16>(low, sgd, amp_torch::init_options<amp::NoScale>{.allow_low = true});
    const at::Tensor wide = sgd.param_groups()[0].params()[0];
    CHECK((static_cast<torch::optim::SGDParamState&>(*sgd.state().at(wide.unsafeGetTensorImpl()))
               .momentum_buffer()
               .scalar_type() == at::kFloat));
  }
}
