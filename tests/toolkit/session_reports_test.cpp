#include <doctest/doctest.h>

#include <amp/optim/sgd.hpp>
#include <amp/session.hpp>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "support/errors.hpp"
#include "toolkit/net.hpp"

using test_support::has;
using test_support::message_of;

using amp::half;
using amp::init_options;
using amp::Sgd;
using amp::Verdict;
using toolkit_test::masters;
using toolkit_test::Net;
using toolkit_test::weights;

namespace {
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float bad = std::numeric_limits<float>::quiet_NaN();

template <class S, class Spoil>
void backward(S& session, Spoil&& spoil, amp::scale_options o = {}) {
  amp::scale_loss(
      1.f, session,
      [&](float s) {
        session.model().backward(s);
        spoil();
      },
      o);
}
}  // namespace

TEST_SUITE("toolkit/session_reports") {
  TEST_CASE("S16 after an overflow inf and NaN are counted per parameter, and nothing is counted while all is finite") {
    auto session = amp::initialize<amp::O2>(Net<float>{}, Sgd{}, {.scale = {.init = 64.f}});
    backward(session, [] {});
    CHECK(session.overflow_counts().empty());
    session.step(), session.zero_grad();
    backward(session, [&] {
      auto& net = session.model();
      net.a_grad[1] = half(infinity), net.a_grad[2] = half(-infinity), net.a_grad[4] = half(bad);
      net.n_grad[0] = bad;
    });
    CHECK(session.overflow() == "a");
    CHECK(session.overflow_counts() == std::vector<amp::overflow_count>{{"a", 2, 1}, {"n", 0, 1}});
    session.step(), session.zero_grad();
    backward(session, [] {});
    CHECK(session.overflow_counts().empty());
    auto quiet = amp::initialize<amp::O2>(Net<float>{}, Sgd{}, {.count_overflow = false});
    backward(quiet, [&] { quiet.model().a_grad[0] = half(bad); });
    CHECK(quiet.overflow() == "a");
    CHECK(quiet.overflow_counts().empty());
  }
  TEST_CASE("S17 the share of gradients that are zero or subnormal is sampled at the present scale") {
    auto session = amp::initialize<amp::O2>(Net<float>(1000), Sgd{}, {.scale = {.init = 1.f}});
    amp::scale_loss(1.f, session, [&](float) {
      auto& net = session.model();
      for (std::size_t i = 0; i < 1000; ++i)
        net.a_grad[i] = half(i % 4 == 0 ? 0.f : i % 4 == 1 ? 0x1p-20f : i % 4 == 2 ? -0x1p-24f : 0x1p-14f);
    });
    const auto all = session.underflow_counts(1);
    REQUIRE(all.size() == 3);
    CHECK(all[0] == amp::underflow_count{"a", 1000, 250, 500});
    CHECK(all[0].share() == 0.75);
    CHECK(all[1] == amp::underflow_count{"b", 1002, 1002, 0});
    CHECK(session.underflow_counts(7)[0].sampled == 143);
    CHECK(session.underflow_counts()[2].sampled == 1);
    CHECK_THROWS_AS((void)session.underflow_counts(0), amp::error);
    CHECK(amp::underflow_count{}.share() == 0.);
  }
  TEST_CASE("S13 the overflow flag is combined over ranks before the decision, once per check") {
    std::vector<bool> seen;
    bool others = false;
    std::vector<std::string> lines;
    auto session =
        amp::initialize<amp::O2>(Net<float>{}, Sgd{},
                                 {.scale = {.init = 64.f},
                                  .log = [&](auto line) { lines.emplace_back(line); },
                                  .any_reduce = [&](bool mine) { return seen.push_back(mine), mine || others; }});
    backward(session, [] {});
    CHECK(session.step() == Verdict::apply);
    session.zero_grad();
    others = true;
    backward(session, [] {});
    CHECK(session.loss_scale() == 32.f);
    CHECK(session.step() == Verdict::skip);
    CHECK(seen == std::vector<bool>{false, false});
    CHECK(lines.at(0) == "loss scale 0: 64 -> 32, step skipped, first overflow in another rank");
  }
  TEST_CASE(
      "S8 a closure is refused at run time where the policy is chosen at run time, and runs where nothing scales") {
    auto scaled =
        amp::initialize<amp::O2>(Net<float>{}, Sgd{}, init_options<amp::AnyScale>{.scale = amp::DynamicScale{}});
    CHECK(has(message_of([&] { scaled.step([] {}); }), "step() takes no closure while the loss is scaled"));
    auto plain = amp::initialize<amp::O0>(Net<float>{}, Sgd{.lr = 1.});
    int calls = 0;
    CHECK(plain.step([&] { plain.model().backward(1.f), ++calls; }) == Verdict::apply);
    CHECK(calls == 1);
    CHECK(plain.model().n[0] == 0.5f);
  }
  TEST_CASE("S5 B01 a bound that holds the scale again and again is told in the log") {
    std::vector<std::string> lines;
    auto session = amp::initialize<amp::O2>(
        Net<float>{}, Sgd{},
        init_options<amp::Bounded<amp::TorchScale>>{.scale = {.policy = {.init = 2.f}, .min = 1.f},
                                                    .log = [&](auto line) { lines.emplace_back(line); }});
    for (int i = 0; i < 11; ++i) {
      session.zero_grad();
      backward(session, [&] { session.model().a_grad[0] = half(bad); });
      session.step();
    }
    CHECK(lines.back() == "loss scale 0: 10 overflows in a row could not lower it below 1");
    CHECK(session.scaler().policy().at_min == 10);
  }
  TEST_CASE("S2 S4 S5 a level's policy may be any of the toolkit's or a user's, bounds included") {
    auto h = amp::initialize<amp::O2.with(amp::scaling::hysteresis)>(Net<float>{}, Sgd{}, {.scale = {.init = 64.f}});
    backward(h, [&] { h.model().a_grad[0] = half(bad); });
    CHECK(h.step() == Verdict::skip);
    CHECK(h.loss_scale() == 64.f);
  }
  TEST_CASE("S14 a session's scalers are saved in apex's form and loaded from it, or from GradScaler's") {
    std::vector<std::string> lines;
    const auto options = init_options<amp::DynamicScale>{
        .scale = {.init = 64.f}, .num_losses = 2, .log = [&](auto line) { lines.emplace_back(line); }};
    auto one = amp::initialize<amp::O2>(Net<float>{}, Sgd{}, options);
    backward(one, [&] { one.model().a_grad[0] = half(bad); }, {.loss_id = 1});
    const auto dict = amp::apex_dict(one.scalers());
    auto two = amp::initialize<amp::O2>(Net<float>{}, Sgd{}, options);
    two.load_scalers(amp::parse_dict(amp::to_text(dict)));
    CHECK(two.loss_scale(0) == 64.f);
    CHECK(two.loss_scale(1) == 32.f);
    lines.clear();
    auto single = amp::initialize<amp::O2>(Net<float>{}, Sgd{}, {.log = [&](auto line) { lines.emplace_back(line); }});
    single.load_scalers(dict);
    CHECK(single.loss_scale() == 64.f);
    CHECK(has(lines.at(0), "holds 2 loss scalers, 1 are used"));
    auto torch = amp::initialize<amp::O2.with(amp::scaling::torch)>(Net<float>{}, Sgd{});
    torch.load_scalers(amp::to_dict(amp::torch_scaler_state{8.f, 2., 0.5, 10, 9}));
    CHECK(torch.loss_scale() == 8.f);
    CHECK(torch.scalers()[0].policy().tracker == 9);
  }
  TEST_CASE("S14 the counter of a policy chosen at run time is read from states that hold one counter") {
    const auto options = init_options<amp::AnyScale>{.scale = amp::DynamicScale{.init = 64.f}};
    auto a = amp::initialize<amp::O2>(Net<float>{}, Sgd{}, options),
         b = amp::initialize<amp::O2>(Net<float>{}, Sgd{}, options);
    backward(a, [] {});
    a.step();
    auto saved = a.state();
    saved.at("scaler.0.policy").bytes.resize(8);
    b.load(saved);
    CHECK(b.scaler().policy().as<amp::DynamicScale>()->clean == 1);
  }
  TEST_CASE("L6 several models come back as what they came as, and their parameters are told apart by number") {
    auto list = amp::initialize<amp::O2>(std::vector<Net<float>>(2), Sgd{.lr = 1.}, {.scale = {.init = 2.f}});
    static_assert(std::is_same_v<std::decay_t<decltype(list.model())>, std::vector<Net<half>>>);
    REQUIRE(list.model().size() == 2);
    amp::scale_loss(1.f, list, [&](float s) { list.model()[1].backward(s); });
    CHECK(list.step() == Verdict::apply);
    CHECK(list.model()[0].n[0] == 1.f);
    CHECK(list.model()[1].n[0] == 0.5f);
    CHECK(amp::master_params(list)[3].name == "1.a");
    auto array = amp::initialize<amp::O2>(std::array{Net<float>{}}, Sgd{});
    static_assert(std::is_same_v<std::decay_t<decltype(array.model())>, std::array<Net<half>, 1>>);
    CHECK(amp::master_params(array)[0].name == "a");
    auto pair = amp::initialize<amp::O2>(std::tuple{Net<float>{}, Net<float>{}}, Sgd{});
    CHECK(amp::master_params(pair)[5].name == "1.n");
  }
  TEST_CASE(
      "L8 master_params lists what is stepped: masters of low parameters, fp32 ones as they are, in group order") {
    auto session = amp::initialize<amp::O2>(Net<float>{}, Sgd{});
    const auto params = amp::master_params(session);
    REQUIRE(params.size() == 3);
    CHECK(params[0].name == "a");
    CHECK(params[0].type == amp::dtype::fp32);
    CHECK(params[0].value != static_cast<void*>(session.model().a.data()));
    CHECK(params[2].value == static_cast<void*>(session.model().n.data()));
    auto kahan = amp::initialize<amp::O2_bf16>(Net<float>{}, Sgd{}, {.storage = {.masters = amp::masters::kahan}});
    CHECK(has(message_of([&] { (void)amp::master_params(kahan); }), "for_each_master"));
  }
  TEST_CASE("L8 the model's low gradients stay scaled after the check") {
    auto session = amp::initialize<amp::O2>(Net<float>{}, Sgd{}, {.scale = {.init = 64.f}});
    backward(session, [] {});
    CHECK(float(session.model().b_grad[0]) == -8.f);
    CHECK(amp::clip_grad_norm(session, 1e9) == doctest::Approx(session.model().norm()));
    CHECK(float(session.model().b_grad[0]) == -8.f);
  }
  TEST_CASE("B28 micro-batches divided by their number give the step of the whole batch, at O0 and O2") {
    const auto run = [](auto session_of) {
      auto parts = session_of();
      for (int micro = 1; micro <= 4; ++micro)
        amp::scale_loss(1.f / 4, *parts, [&](float s) { parts->model().backward(s, static_cast<float>(micro)); },
                        {.delay_unscale = micro < 4});
      parts->step();
      auto whole = session_of();
      amp::scale_loss(1.f, *whole, [&](float s) { whole->model().backward(s, 2.5f); });
      whole->step();
      const auto a = masters(*parts), b = masters(*whole);
      for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-6));
    };
    run([] {
      using Session = decltype(amp::initialize<amp::O0>(Net<float>{}, Sgd{}));
      return std::unique_ptr<Session>(new Session(amp::initialize<amp::O0>(Net<float>{}, Sgd{.lr = 0.1})));
    });
    run([] {
      using Session = decltype(amp::initialize<amp::O2>(Net<float>{}, Sgd{}));
      return std::unique_ptr<Session>(
          new Session(amp::initialize<amp::O2>(Net<float>{}, Sgd{.lr = 0.1}, {.scale = {.init = 64.f}})));
    });
  }
  TEST_CASE("B47 the log says that bf16 needs no loss scale, and that fp16 without one loses small gradients") {
    std::vector<std::string> lines;
    const auto log = [&](std::string_view line) { lines.emplace_back(line); };
    (void)amp::initialize<amp::O2_bf16>(Net<float>{}, Sgd{}, {.log = log});
    CHECK(lines.empty());
    (void)amp::initialize<amp::O2_bf16>(Net<float>{}, Sgd{},
                                        init_options<amp::StaticScale>{.scale = {128.f}, .log = log});
    (void)amp::initialize<amp::O2>(Net<float>{}, Sgd{}, init_options<amp::NoScale>{.log = log});
    REQUIRE(lines.size() == 2);
    CHECK(has(lines[0], "loss scaling is not needed"));
    CHECK(has(lines[1], "fp16 without loss scaling"));
    lines.clear();
    (void)amp::initialize<amp::O3_bf16>(Net<float>{}, Sgd{}, {.log = log});
    CHECK(has(lines.at(0), "no master weights"));
  }
}
