#include <doctest/doctest.h>

#include <amp/optim/adam.hpp>
#include <amp/optim/sgd.hpp>
#include <amp/session.hpp>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/errors.hpp"
#include "toolkit/net.hpp"

using test_support::has;
using test_support::message_of;

using amp::Adam;
using amp::AnyScale;
using amp::bfloat16;
using amp::DynamicScale;
using amp::half;
using amp::init_options;
using amp::Sgd;
using amp::StaticScale;
using amp::Verdict;
using toolkit_test::masters;
using toolkit_test::Net;
using toolkit_test::weights;

namespace {
constexpr float infinity = std::numeric_limits<float>::infinity();
using Net32 = Net<float>;

/// One whole step: zero, scaled backward, step.
template <class S>
Verdict train(S& session, float base = 1.f, bool poison = false) {
  session.zero_grad();
  amp::scale_loss(1.f, session, [&](float scaled) {
    session.model().backward(scaled, base);
    if (poison) session.model().b_grad[1] = decltype(session.model().b_grad[1] + session.model().b_grad[1])(infinity);
  });
  return session.step();
}
}  // namespace

TEST_SUITE("toolkit/session") {
  TEST_CASE("L4 S6 O2 casts the model, keeps norms fp32, and steps what a plain fp32 run steps") {
    auto low = amp::initialize<amp::O2>(Net32{}, Sgd{.lr = 0.125}, {.scale = {.init = 1024.f}});
    static_assert(std::is_same_v<std::decay_t<decltype(low.model())>, Net<half>>);
    CHECK(train(low) == Verdict::apply);
    // The pattern is exact in fp16 at every scale used here, so masters move as fp32 weights do.
    const float first = float(half(1.f)) - 0.125f * 0.25f;
    CHECK(masters(low)[0] == first);
    CHECK(low.model().n[0] == 1.f - 0.125f * 0.5f);
    CHECK(float(low.model().a[0]) == float(half(first)));
    CHECK(low.steps() == 1);
  }
  TEST_CASE("L3 O0 and a disabled session step alike, and the loss comes back unscaled in its own type") {
    auto plain = amp::initialize<amp::O0>(Net32{}, Adam{.lr = 0.1});
    auto off = amp::initialize<amp::O2.with_enabled(false)>(Net32{}, Adam{.lr = 0.1});
    static_assert(std::is_same_v<std::decay_t<decltype(off.model())>, Net32>);
    for (int i = 0; i < 3; ++i) train(plain);
    for (int i = 0; i < 3; ++i) {
      off.zero_grad();
      amp::scale_loss(half(3.f), off, [&](auto loss) {
        static_assert(std::is_same_v<decltype(loss), half>);
        CHECK(float(loss) == 3.f);
        off.model().backward(1.f);
      });
      CHECK(off.step() == Verdict::apply);
    }
    CHECK(weights(plain.model()) == weights(off.model()));
    CHECK(off.loss_scale() == 1.f);
    CHECK_NOTHROW(off.step());  // as a plain optimizer
    const auto other = amp::initialize<amp::O2.with_enabled(false)>(Net32{}, Sgd{}, init_options<DynamicScale>{});
    CHECK(other.loss_scale() == 1.f);
  }
  TEST_CASE("S6 the scaled loss is fp32 whatever the loss is") {
    auto session = amp::initialize<amp::O2>(Net32{}, Sgd{}, {.scale = {.init = 65536.f}});
    amp::scale_loss(half(2.f), session, [](auto scaled) {
      static_assert(std::is_same_v<decltype(scaled), float>);
      CHECK(scaled == 131072.f);
    });
    amp::scale_loss(0.5, session, [](auto scaled) { CHECK(scaled == 32768.f); }, {.delay_unscale = true});
  }
  TEST_CASE(
      "S7 S8 an overflow skips: weights, masters, moments and counters stay, the scale halves, the next step is "
      "normal") {
    auto session = amp::initialize<amp::O2>(Net32{}, Adam{.lr = 0.1}, {.scale = {.init = 256.f}});
    train(session);
    const auto before = session.state();
    const auto low = weights(session.model());
    CHECK(train(session, 1.f, true) == Verdict::skip);
    CHECK(session.overflow() == "b");
    CHECK(session.loss_scale() == 128.f);
    CHECK(weights(session.model()) == low);
    const auto after = session.state();
    for (const auto& entry : before)
      if (entry.first.starts_with("optimizer.")) CHECK_MESSAGE(after.at(entry.first) == entry.second, entry.first);
    CHECK(session.skipped() == 1);
    CHECK(session.steps() == 1);
    CHECK(train(session) == Verdict::apply);
    CHECK(session.overflow().empty());
    CHECK(session.optimizer().group(0).step == 2);
  }
  TEST_CASE("S8 two overflows before one step skip one step only") {
    auto session = amp::initialize<amp::O2>(Net32{}, Sgd{.lr = 0.1}, {.scale = {.init = 256.f}});
    for (int i = 0; i < 2; ++i) {
      amp::scale_loss(1.f, session, [&](float s) {
        session.model().backward(s);
        session.model().a_grad[0] = half(infinity);
      });
    }
    CHECK(session.loss_scale() == 64.f);
    CHECK(session.step() == Verdict::skip);
    CHECK(train(session) == Verdict::apply);
  }
  TEST_CASE("B12 S8 skipped steps do not count in Adam's bias correction") {
    auto skipping = amp::initialize<amp::O2>(Net32{}, Adam{.lr = 0.1}, {.scale = {.init = 512.f}});
    for (int i = 0; i < 3; ++i) CHECK(train(skipping, 1.f, true) == Verdict::skip);
    auto fresh = amp::initialize<amp::O2>(Net32{}, Adam{.lr = 0.1}, {.scale = {.init = 64.f}});
    train(skipping), train(fresh);
    CHECK(masters(skipping) == masters(fresh));
    CHECK(skipping.optimizer().group(0).step == 1);
  }
  TEST_CASE("B10 the scale of a session grows after the window and is told in the log once per change") {
    std::vector<std::string> lines;
    auto session = amp::initialize<amp::O2>(
        Net32{}, Sgd{}, {.scale = {.init = 8.f, .window = 3}, .log = [&](auto line) { lines.emplace_back(line); }});
    std::vector<float> scales;
    for (const bool poison : {false, false, false, true, false, false, false}) {
      train(session, 1.f, poison);
      scales.push_back(session.loss_scale());
    }
    CHECK(scales == std::vector<float>{8.f, 8.f, 16.f, 8.f, 8.f, 8.f, 16.f});
    REQUIRE(lines.size() == 3);
    CHECK(lines[1] == "loss scale 0: 16 -> 8, step skipped, first overflow in b");
  }
  TEST_CASE("B30 clipping sees unscaled gradients: the norm and the first update do not depend on the scale") {
    std::vector<std::vector<float>> results;
    for (const float scale : {1.f, 64.f, 8192.f}) {
      auto session = amp::initialize<amp::O2>(Net32{}, Sgd{.lr = 0.1}, {.scale = {.init = scale}});
      amp::scale_loss(1.f, session, [&](float s) { session.model().backward(s); });
      CHECK(amp::clip_grad_norm(session, 0.5) == doctest::Approx(session.model().norm()).epsilon(1e-7));
      session.step();
      results.push_back(masters(session));
    }
    CHECK(results[0] == results[1]);
    CHECK(results[0] == results[2]);
    auto unclipped = amp::initialize<amp::O2>(Net32{}, Sgd{.lr = 0.1});
    train(unclipped);
    CHECK(masters(unclipped) != results[0]);
  }
  TEST_CASE("B34 the norm returned is the one before clipping, and clipping twice goes on from the first") {
    auto session = amp::initialize<amp::O0>(Net32{}, Sgd{.lr = 1.});
    const double norm = session.model().norm();
    amp::scale_loss(1.f, session, [&](float s) { session.model().backward(s); });
    CHECK(amp::clip_grad_norm(session, norm / 2.) == doctest::Approx(norm));
    CHECK(amp::clip_grad_norm(session, norm / 4.) == doctest::Approx(norm / 2.));
    session.step();
    CHECK(session.model().n[0] == doctest::Approx(1. - 0.5 / 4.));
  }
  TEST_CASE("S7 error_if_nonfinite names the tensor, without it the norm says what it is and the step is skipped") {
    auto session = amp::initialize<amp::O2>(Net32{}, Sgd{});
    amp::scale_loss(1.f, session, [&](float s) {
      session.model().backward(s / 65536.f);
      session.model().a_grad[2] = half(infinity);
    });
    CHECK_THROWS_WITH_AS(amp::clip_grad_norm(session, 1., {.error_if_nonfinite = true}), doctest::Contains("is a ["),
                         amp::error);
    CHECK_FALSE(std::isfinite(amp::clip_grad_norm(session, 1.)));
    CHECK(session.step() == Verdict::skip);
  }
  TEST_CASE("S7 delayed scopes sum in the model's gradients and are unscaled as one") {
    auto twice = amp::initialize<amp::O2>(Net32{}, Sgd{.lr = 0.1}, {.scale = {.init = 64.f}});
    amp::scale_loss(1.f, twice, [&](float s) { twice.model().backward(s); }, {.delay_unscale = true});
    amp::scale_loss(1.f, twice, [&](float s) { twice.model().backward(s); });
    CHECK_FALSE(twice.optimizer().has_stash());
    CHECK(amp::clip_grad_norm(twice, 1e9) == doctest::Approx(twice.model().norm(2.)));
    twice.step();
    auto once = amp::initialize<amp::O2>(Net32{}, Sgd{.lr = 0.1}, {.scale = {.init = 64.f}});
    train(once, 2.f);
    CHECK(masters(twice) == masters(once));
  }
  TEST_CASE("S7 stepping or clipping on scaled gradients is an error with the caller's place") {
    auto session = amp::initialize<amp::O2>(Net32{}, Sgd{});
    amp::scale_loss(1.f, session, [&](float s) { session.model().backward(s); }, {.delay_unscale = true});
    CHECK_THROWS_WITH_AS(session.step(), doctest::Contains("step() on scaled gradients"), amp::error);
    CHECK_THROWS_WITH_AS(session.step(), doctest::Contains("session_test.cpp"), amp::error);
    CHECK_THROWS_AS(amp::clip_grad_norm(session, 1.), amp::error);
    CHECK_THROWS_AS((void)session.state(), amp::error);
    CHECK(weights(session.model()) == weights(Net32{}.cast<half>(true)));
    session.zero_grad();  // gives the sum up
    CHECK_NOTHROW(session.step());
  }
  TEST_CASE("a second step on the same gradients is an error") {
    auto session = amp::initialize<amp::O2>(Net32{}, Sgd{});
    train(session);
    CHECK_THROWS_WITH_AS(session.step(), doctest::Contains("no scale_loss since the last step"), amp::error);
    CHECK_THROWS_AS(amp::clip_grad_norm(session, 1.), amp::error);
  }
  TEST_CASE("B33 S9 two losses keep their own scales, and their gradients sum in common units") {
    const auto options = init_options<AnyScale>{.scale = StaticScale{1024.f}, .num_losses = 2};
    auto both = amp::initialize<amp::O2>(Net32{}, Sgd{.lr = 0.1},
                                         init_options<DynamicScale>{.scale = {.init = 1024.f}, .num_losses = 2});
    // Loss 1 overflows once on its own, so that its scale differs.
    amp::scale_loss(1.f, both, [&](float) { both.model().a_grad[0] = half(infinity); }, {.loss_id = 1});
    CHECK(both.step() == Verdict::skip);
    CHECK(both.loss_scale(0) == 1024.f);
    CHECK(both.loss_scale(1) == 512.f);
    both.zero_grad();
    amp::scale_loss(1.f, both, [&](float s) { both.model().backward(s); }, {.loss_id = 0});
    amp::scale_loss(1.f, both, [&](float s) { both.model().backward(s, 2.f); }, {.loss_id = 1});
    CHECK(amp::clip_grad_norm(both, 1e9) == doctest::Approx(both.model().norm(3.)));
    CHECK(both.step() == Verdict::apply);
    auto once = amp::initialize<amp::O2>(Net32{}, Sgd{.lr = 0.1}, {.scale = {.init = 1024.f}});
    train(once, 3.f);
    CHECK(masters(both) == masters(once));
    CHECK_THROWS_WITH_AS((void)both.loss_scale(2), doctest::Contains("num_losses"), amp::error);
    CHECK_THROWS_AS(amp::scale_loss(1.f, both, [](float) {}, {.loss_id = -1}), amp::error);
    CHECK(options.num_losses == 2);
  }
  TEST_CASE("S9 an overflow in an earlier loss skips the step but is not laid on a later one") {
    auto session =
        amp::initialize<amp::O2>(Net32{}, Sgd{}, init_options<DynamicScale>{.scale = {.init = 64.f}, .num_losses = 2});
    amp::scale_loss(1.f, session,
                    [&](float s) {
                      session.model().backward(s);
                      session.model().n_grad[0] = infinity;
                      session.model().a_grad[0] = half(infinity);
                    },
                    {.loss_id = 0});
    amp::scale_loss(1.f, session, [&](float s) { session.model().backward(s); }, {.loss_id = 1});
    CHECK(session.loss_scale(0) == 32.f);
    CHECK(session.loss_scale(1) == 64.f);
    CHECK(session.step() == Verdict::skip);
    CHECK(train(session) == Verdict::apply);
    for (const float w : masters(session)) CHECK(std::isfinite(w));
  }
  TEST_CASE("B06 gradients remember their scale: delayed scopes of two scales are refused") {
    auto session =
        amp::initialize<amp::O2>(Net32{}, Sgd{}, init_options<DynamicScale>{.scale = {.init = 64.f}, .num_losses = 2});
    train(session, 1.f, true);  // loss 0 falls to 32
    session.zero_grad();
    amp::scale_loss(1.f, session, [](float) {}, {.loss_id = 0, .delay_unscale = true});
    CHECK_THROWS_WITH_AS(amp::scale_loss(1.f, session, [](float) {}, {.loss_id = 1}),
                         doctest::Contains("of scale 32 wait"), amp::error);
  }
  TEST_CASE("S7 delay_overflow_check leaves the update to a later scope of the same loss") {
    auto session = amp::initialize<amp::O2>(Net32{}, Sgd{}, {.scale = {.init = 64.f}});
    amp::scale_loss(1.f, session, [&](float) { session.model().a_grad[0] = half(infinity); },
                    {.delay_overflow_check = true});
    CHECK(session.loss_scale() == 64.f);
    amp::scale_loss(1.f, session, [&](float s) { session.model().backward(s); });
    CHECK(session.loss_scale() == 32.f);
    CHECK(session.step() == Verdict::skip);
  }
  TEST_CASE("S7 S10 an overflow found late moves the scale, and only the optimizers of its own scope skip") {
    const auto is_norm = [](const amp::Param& p) { return p.role == amp::role::norm; };
    auto session = amp::initialize<amp::O2>(
        Net32{},
        std::tuple{amp::Group<Sgd>{Sgd{.lr = 1.}, is_norm, "norms"}, amp::Group<Adam>{Adam{.lr = 0.1}, {}, "rest"}},
        {.scale = {.init = 64.f}});
    amp::scale_loss(1.f, session, [&](float) { session.model().n_grad[1] = infinity; },
                    {.optimizers = {0}, .delay_overflow_check = true});
    amp::scale_loss(1.f, session, [&](float s) { session.model().backward(s); }, {.optimizers = {1}});
    CHECK(session.loss_scale() == 32.f);
    CHECK(session.step() == Verdict::skip);
    CHECK(session.optimizer<0>().group(0).step == 0);
    CHECK(session.optimizer<1>().group(0).step == 1);
    CHECK(session.skipped() == 1);
  }
  TEST_CASE("S1 S6 a static scale reports an overflow and steps all the same, at 1 too where there are masters") {
    for (const char* setting : {"1.0", "128"}) {
      auto session = amp::initialize<amp::O2>(
          Net32{}, Sgd{}, init_options<AnyScale>{.scale = amp::scale_policy(amp::parse_loss_scale(setting))});
      CHECK(train(session, 1.f, true) == Verdict::apply);
      CHECK(session.overflow() == "b");
      CHECK(session.overflow_counts() == std::vector<amp::overflow_count>{{"b", 1, 0}});
      CHECK(session.scaler().overflows() == 1);
    }
  }
  TEST_CASE("S1 S6 a static scale reports an overflow, scale 1 without masters looks at nothing") {
    auto session = amp::initialize<amp::O2>(Net32{}, Sgd{}, init_options<StaticScale>{.scale = {128.f}});
    CHECK(train(session, 1.f, true) == Verdict::apply);
    CHECK(session.overflow() == "b");
    CHECK(session.scaler().overflows() == 1);
    CHECK(session.loss_scale() == 128.f);
    auto shortcut = amp::initialize<amp::O3>(Net32{}, Sgd{}, init_options<StaticScale>{});
    CHECK(train(shortcut, 1.f, true) == Verdict::apply);
    CHECK(shortcut.scaler().updates() == 0);
  }
  TEST_CASE("B47 bf16 defaults to no scaling, and remarks are made on odd choices") {
    std::vector<std::string> lines;
    const auto log = [&](std::string_view line) { lines.emplace_back(line); };
    auto session = amp::initialize<amp::O2_bf16>(Net32{}, Sgd{}, {.log = log});
    CHECK(lines.empty());
    CHECK(session.loss_scale() == 1.f);
    CHECK(train(session) == Verdict::apply);
    auto scaled = amp::initialize<amp::O2_bf16>(Net32{}, Sgd{}, init_options<DynamicScale>{.log = log});
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].find("bf16") != std::string::npos);
    auto pure = amp::initialize<amp::O3>(Net32{}, Sgd{}, {.log = log});
    REQUIRE(lines.size() == 3);
    CHECK(lines[1].find("without loss scaling") != std::string::npos);
    CHECK(lines[2].find("no master weights") != std::string::npos);
  }
  TEST_CASE("B01 after the allowed skips in a row the session stops and names the tensor") {
    auto session = amp::initialize<amp::O2>(Net32{}, Sgd{}, {.max_consecutive_skips = 3});
    CHECK(train(session, 1.f, true) == Verdict::skip);
    CHECK(train(session, 1.f, true) == Verdict::skip);
    try {
      train(session, 1.f, true);
      FAIL("no error");
    } catch (const amp::diverged& e) {
      CHECK(e.tensor() == "b");
      CHECK(std::string(e.what()).find("3 steps in a row overflowed") != std::string::npos);
    }
    auto patient = amp::initialize<amp::O2>(Net32{}, Sgd{}, {.max_consecutive_skips = 0});
    for (int i = 0; i < 200; ++i) CHECK(train(patient, 1.f, true) == Verdict::skip);
    CHECK(patient.loss_scale() > 0.f);
  }
  TEST_CASE("a backward that throws leaves the session usable after zero_grad") {
    auto session = amp::initialize<amp::O2>(Net32{}, Sgd{}, {.scale = {.init = 64.f}});
    CHECK_THROWS_AS(amp::scale_loss(1.f, session, [](float) { throw std::runtime_error("backward"); }),
                    std::runtime_error);
    CHECK(train(session) == Verdict::apply);
  }
  TEST_CASE("groups by rule: the first group that takes a parameter steps it, others stay as they are") {
    using Group = amp::Group<Sgd>;
    const auto named = [](std::string name) { return [name](const amp::Param& p) { return p.name == name; }; };
    auto session = amp::initialize<amp::O0>(
        Net32{}, std::vector<Group>{{Sgd{.lr = 1.}, named("n"), "norms"}, {Sgd{.lr = 0.}, named("a"), "frozen"}});
    const float b = session.model().b[0];
    train(session);
    CHECK(session.model().n[0] == 0.5f);
    CHECK(session.model().a[0] == 1.f);
    CHECK(session.model().b[0] == b);
    session.set_lr(0, 2.);
    train(session);
    CHECK(session.model().n[0] == -0.5f);
    CHECK(session.optimizer().group_name(0) == "norms");
  }
  TEST_CASE("S10 several optimizers: only those of the overflowing scope skip") {
    const auto is_norm = [](const amp::Param& p) { return p.role == amp::role::norm; };
    auto session = amp::initialize<amp::O2>(
        Net32{},
        std::tuple{amp::Group<Sgd>{Sgd{.lr = 1.}, is_norm, "norms"}, amp::Group<Adam>{Adam{.lr = 0.1}, {}, "rest"}},
        {.scale = {.init = 64.f}});
    amp::scale_loss(1.f, session,
                    [&](float s) {
                      session.model().backward(s);
                      session.model().n_grad[1] = infinity;
                    },
                    {.optimizers = {0}});
    amp::scale_loss(1.f, session, [&](float s) { session.model().backward(s); }, {.optimizers = {1}});
    CHECK(session.step() == Verdict::skip);
    CHECK(session.model().n[0] == 1.f);
    CHECK(float(session.model().a[0]) != 1.f);
    CHECK(session.optimizer<0>().group(0).step == 0);
    CHECK(session.optimizer<1>().group(0).step == 1);
    CHECK_THROWS_AS(amp::scale_loss(1.f, session, [](float) {}, {.optimizers = {2}}), amp::error);
  }
  TEST_CASE("S10 the bad tensor of the first optimizer is named though the second one's gradients are clean") {
    const auto is_norm = [](const amp::Param& p) { return p.role == amp::role::norm; };
    auto session = amp::initialize<amp::O2>(
        Net32{}, std::tuple{amp::Group<Sgd>{Sgd{}, is_norm, "norms"}, amp::Group<Sgd>{Sgd{}, {}, "rest"}},
        {.scale = {.init = 64.f}});
    amp::scale_loss(1.f, session, [&](float s) {
      session.model().backward(s);
      session.model().n_grad[1] = infinity;
    });
    CHECK(session.overflow() == "n");
    CHECK(session.step() == Verdict::skip);
    CHECK(session.overflow() == "n");
    CHECK(train(session) == Verdict::apply);
    CHECK(session.overflow().empty());
  }
  TEST_CASE("a factor of clipping holds for the gradients that it was made for, not for those of a later scope") {
    auto session = amp::initialize<amp::O0>(Net32{}, Sgd{.lr = 1.});
    const double norm = session.model().norm();
    amp::scale_loss(1.f, session, [&](float s) { session.model().backward(s); });
    amp::clip_grad_norm(session, norm / 2.);
    amp::scale_loss(1.f, session, [&](float s) { session.model().backward(s); });
    session.step();
    CHECK(session.model().n[0] == doctest::Approx(1. - 0.5 * 1.5));
  }
  TEST_CASE(
      "B30 a factor of clipping chosen for the sum of several scopes holds for that sum when more scopes follow") {
    const auto n_after = [](auto& session, bool empty) {
      const double norm = session.model().norm();
      const auto scope = [&](float base) {
        amp::scale_loss(1.f, session, [&](float s) { session.model().backward(s, base); });
      };
      scope(1.f), scope(1.f);
      CHECK(amp::clip_grad_norm(session, norm / 2.) == doctest::Approx(2. * norm));
      scope(empty ? 0.f : 1.f);
      CHECK(amp::clip_grad_norm(session, 1e9) == doctest::Approx(empty ? norm / 2. : 1.5 * norm));
      session.step();
      return session.model().n[0];
    };
    const auto check = [&]<amp::OptLevel L>(const amp::storage_options& storage) {
      for (const bool empty : {true, false}) {
        auto session = amp::initialize<L>(Net32{}, Sgd{.lr = 1.},
                                          init_options<AnyScale>{.scale = StaticScale{64.f}, .storage = storage});
        CHECK(n_after(session, empty) == doctest::Approx(1. - 1. / 4. - (empty ? 0. : 0.5)));
        CHECK(float(session.model().a[0]) == doctest::Approx(1. - 0.5 / 4. - (empty ? 0. : 0.25)).epsilon(1e-3));
      }
    };
    check.template operator()<amp::O0>({});
    check.template operator()<amp::O2>({});
    check.template operator()<amp::O2>({.low_stash = true});
    check.template operator()<amp::O3>({});
  }
  TEST_CASE(
      "B30 a factor of clipping holds for gradients that no scope announced, and not for those of a scope after") {
    for (const bool cleared : {false, true}) {
      auto session = amp::initialize<amp::O0>(Net32{}, Sgd{.lr = 1.});
      if (cleared) session.zero_grad();
      session.model().backward(1.f);
      amp::clip_grad_norm(session, session.model().norm() / 2.);
      amp::scale_loss(1.f, session, [&](float s) { session.model().backward(s); });
      session.step();
      CHECK(session.model().n[0] == doctest::Approx(1. - 0.5 * 1.5));
    }
  }
  TEST_CASE("L6 a network that is low already is refused by its parameter's name, unless allowed") {
    const auto low = Net32{}.cast<half>(true);
    const auto refused = [&](auto networks) {
      return message_of([&] { (void)amp::initialize<amp::O2>(std::move(networks), Sgd{}); });
    };
    CHECK(has(refused(low), "the network comes in fp16 already (parameter \"a\")"));
    CHECK(has(refused(std::vector{Net32{}.cast<bfloat16>(true)}), "comes in bf16 already"));
    CHECK(has(refused(std::tuple{Net32{}, low}), "parameter \"1.a\""));
    CHECK_NOTHROW((void)amp::initialize<amp::O2>(low, Sgd{}, {.allow_low = true}));
    CHECK_NOTHROW((void)amp::initialize<amp::O0>(low, Sgd{}));
    CHECK_NOTHROW((void)amp::initialize<amp::O2.with_enabled(false)>(low, Sgd{}));
  }
  TEST_CASE("L6 several models are a tuple") {
    auto session = amp::initialize<amp::O0>(std::tuple{Net32{}}, Sgd{.lr = 1.});
    amp::scale_loss(1.f, session, [&](float s) { std::get<0>(session.model()).backward(s); });
    session.step();
    CHECK(std::get<0>(session.model()).n[0] == 0.5f);
  }
  TEST_CASE("B48 a saved and loaded session goes on bit for bit: masters, moments, counters, scale, clean count") {
    const auto options = init_options<DynamicScale>{.scale = {.init = 64.f, .window = 3}};
    auto one = amp::initialize<amp::O2>(Net32{}, Adam{.lr = 0.01}, options);
    for (int i = 0; i < 5; ++i) train(one, 0.1f * static_cast<float>(i + 1), i == 1);
    const auto saved = one.state();
    auto two = amp::initialize<amp::O2>(Net32{}, Adam{.lr = 0.01}, options);
    train(two, 7.f);
    two.load(saved);
    CHECK(two.state() == saved);
    CHECK(two.loss_scale() == one.loss_scale());
    for (int i = 0; i < 5; ++i) {
      train(one, 0.3f, i == 2), train(two, 0.3f, i == 2);
      CHECK(one.state() == two.state());
      CHECK(weights(one.model()) == weights(two.model()));
    }
    CHECK(two.skipped() == 2);
  }
  TEST_CASE("a state that lacks an entry is refused by name and changes nothing") {
    auto session = amp::initialize<amp::O2>(Net32{}, Adam{});
    train(session);
    auto saved = session.state();
    saved.erase("optimizer.0.master.b");
    const auto before = session.state();
    CHECK_THROWS_WITH_AS(session.load(saved), doctest::Contains("optimizer.0.master.b"), amp::error);
    CHECK_THROWS_AS(session.load({}), amp::error);
    CHECK(session.state() == before);
  }
  TEST_CASE("L8 for_each_master gives unscaled gradients, says its price once, and does not change the step") {
    std::vector<std::string> lines;
    auto session = amp::initialize<amp::O2>(Net32{}, Sgd{.lr = 0.1},
                                            {.scale = {.init = 64.f}, .log = [&](auto l) { lines.emplace_back(l); }});
    auto plain = amp::initialize<amp::O2>(Net32{}, Sgd{.lr = 0.1}, {.scale = {.init = 64.f}});
    train(plain);
    amp::scale_loss(1.f, session, [&](float s) { session.model().backward(s); });
    for (int i = 0; i < 2; ++i)
      session.for_each_master([](const amp::MasterView& v) {
        if (v.name == "n") CHECK(v.grad[0] == 0.5f);
      });
    CHECK(lines.size() == 1);
    session.step();
    CHECK(masters(session) == masters(plain));
  }
  TEST_CASE("B26 a group added to a session is stepped, checked and saved") {
    std::vector<half> extra{half(1.f)}, grad{half(0.f)};
    auto session = amp::initialize<amp::O2>(Net32{}, Sgd{.lr = 0.5}, {.scale = {.init = 64.f}});
    train(session);
    session.zero_grad();
    session.add_group({Sgd{.lr = 1.},
                       std::make_shared<amp::FixedParams>(std::vector{amp::make_param("extra", extra, grad)}), "late"});
    amp::scale_loss(1.f, session, [&](float s) { grad[0] = half(0.25f * s); });
    session.step();
    CHECK(float(extra[0]) == 0.75f);
    CHECK(session.state().contains("optimizer.0.master.extra"));
    session.zero_grad();
    amp::scale_loss(1.f, session, [&](float) { grad[0] = half(infinity); });
    CHECK(session.overflow() == "extra");
    CHECK(session.step() == Verdict::skip);
  }
  TEST_CASE("B26 L6 a group is refused if this or another optimizer steps one of its parameters already") {
    const auto is_norm = [](const amp::Param& p) { return p.role == amp::role::norm; };
    auto session = amp::initialize<amp::O0>(
        Net32{}, std::tuple{amp::Group<Sgd>{Sgd{.lr = 1.}, is_norm, "norms"}, amp::Group<Adam>{Adam{}, {}, "rest"}});
    const auto group = [&](std::size_t parameter) {
      auto p = session.model().parameters()[parameter];
      p.name = "again";
      return std::make_shared<amp::FixedParams>(std::vector{p});
    };
    CHECK(has(message_of([&] { session.add_group<1>({Adam{}, group(2), "late"}); }), "again is given twice"));
    CHECK(has(message_of([&] { session.add_group<0>({Sgd{}, group(0), "late"}); }), "again is given twice"));
    CHECK(has(message_of([&] { session.add_group<0>({Sgd{}, group(2), "late"}); }), "again is given twice"));
    const auto tail = std::make_shared<amp::FixedParams>(std::vector{
        amp::Param{.name = "tail", .value = session.model().b.data() + 3, .size = 2, .type = amp::dtype::fp32}});
    CHECK(has(message_of([&] { session.add_group<0>({Sgd{}, tail, "late"}); }), "parameters b and tail overlap"));
    CHECK(session.optimizer<0>().group_count() == 1);
    CHECK(session.optimizer<1>().group_count() == 1);
    using Both = amp::Session<amp::O0, Net32, amp::NoScale, Sgd, Adam>;
    const auto build = [](Net32& net) {
      const auto all = std::make_shared<amp::FixedParams>(net.parameters());
      return std::tuple{std::vector<amp::GroupSpec<Sgd>>{{Sgd{}, all, "all"}},
                        std::vector<amp::GroupSpec<Adam>>{{Adam{}, all, "all"}}};
    };
    CHECK(has(message_of([&] { (void)std::make_unique<Both>(Net32{}, init_options<amp::NoScale>{}, build); }),
              "a is given twice"));
  }
  TEST_CASE("B19 Adam at O3 moves fp16 weights by lr on small gradients: eps and moments are fp32") {
    std::vector<std::string> lines;
    auto session =
        amp::initialize<amp::O3>(Net32{}, Adam{.lr = 0.125}, {.log = [&](auto l) { lines.emplace_back(l); }});
    for (int i = 0; i < 3; ++i) {
      train(session, 4e-4f);  // 1e-4 and more: its square is 0 in fp16, and so would be eps
      for (const float w : weights(session.model())) REQUIRE(std::isfinite(w));
    }
    CHECK(float(session.model().a[0]) == doctest::Approx(1. - 3 * 0.125).epsilon(1e-3));
    CHECK(lines.size() == 2);                           // no scale, no masters
    CHECK(train(session, infinity) == Verdict::apply);  // nothing scales, so nothing skips; the norm names the tensor
    session.zero_grad();
    amp::scale_loss(1.f, session, [&](float) { session.model().a_grad[0] = half(infinity); });
    CHECK_THROWS_WITH_AS(amp::clip_grad_norm(session, 1., {.error_if_nonfinite = true}), doctest::Contains("is a ["),
                         amp::error);
  }
  TEST_CASE("options out of range throw") {
    CHECK_THROWS_AS((void)amp::initialize<amp::O2>(Net32{}, Sgd{}, {.num_losses = 0}), amp::error);
    CHECK_THROWS_AS((void)amp::initialize<amp::O2>(Net32{}, Sgd{}, {.max_consecutive_skips = -1}), amp::error);
    CHECK_THROWS_AS((void)amp::initialize<amp::O2>(Net32{}, Sgd{.lr = -1.}), amp::error);
    auto session = amp::initialize<amp::O0>(Net32{}, Sgd{});
    CHECK_THROWS_AS(amp::clip_grad_norm(session, 0.), amp::error);
  }
  TEST_CASE("L3 a loss_scale setting becomes a policy: dynamic, or a constant, 1 too") {
    CHECK(amp::scale_policy(amp::parse_loss_scale("dynamic")).skips_now());
    CHECK(amp::scale_policy(amp::parse_loss_scale("128")).initial() == 128.f);
    CHECK(amp::scale_policy(amp::parse_loss_scale("1.0")).as<amp::StaticScale>()->value == 1.f);
    const auto torch = amp::scale_policy(amp::parse_loss_scale("dynamic"), amp::TorchScale{.init = 4.f});
    CHECK(torch.as<amp::TorchScale>()->init == 4.f);
  }
}
