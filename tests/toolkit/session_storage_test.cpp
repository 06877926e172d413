#include <doctest/doctest.h>

#include <amp/optim/adam.hpp>
#include <amp/session.hpp>
#include <memory>
#include <tuple>
#include <vector>

#include "toolkit/net.hpp"

using amp::Adam;
using amp::dtype;
using amp::masters;
using toolkit_test::Net;
using toolkit_test::weights;

namespace {
auto session_of(const amp::storage_options& storage) {
  return std::make_unique<amp::Session<amp::O2_bf16, Net<amp::bfloat16>, amp::NoScale, Adam>>(
      Net<amp::bfloat16>(40), amp::init_options<amp::NoScale>{.storage = storage}, [](auto& net) {
        return std::tuple{std::vector<amp::GroupSpec<Adam>>{
            {Adam{.lr = 0.05}, std::make_shared<amp::FixedParams>(net.parameters()), "all"}}};
      });
}
template <class S>
void train(S& session, int steps) {
  for (int i = 0; i < steps; ++i) {
    session.zero_grad();
    amp::scale_loss(1.f, session, [&](float s) { session.model().backward(s, i % 3 == 0 ? 1.f : -0.4f); });
    amp::clip_grad_norm(session, 2.);
    session.step();
  }
}
}  // namespace

TEST_SUITE("toolkit/session_storage") {
  TEST_CASE("M11 M12 a session keeps its state as storage_options say, in 4 bytes a parameter in place of 12") {
    auto wide = session_of({}), remainder = session_of({.masters = masters::remainder}),
         narrow = session_of({.masters = masters::remainder, .moments = dtype::e4m3});
    CHECK(wide->optimizer().storage().masters == masters::fp32);
    CHECK(narrow->optimizer().storage().moments == amp::moment_formats(dtype::e4m3));
    train(*wide, 12), train(*remainder, 12), train(*narrow, 12);
    const auto expected = weights(wide->model());
    CHECK(weights(remainder->model()) == expected);
    const auto near = weights(narrow->model());
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(near[i] == doctest::Approx(expected[i]).epsilon(0.1));
    const auto bytes = [](auto& s) { return s->optimizer().master_bytes() + s->optimizer().moment_bytes(); };
    const std::int64_t low = 40 + 42, norm = 3;
    CHECK(bytes(wide) == 12 * low + 8 * norm);
    CHECK(bytes(narrow) == 4 * low + 2 * norm + 3 * 2 * 4);  // and a scale a tensor and moment
  }
  TEST_CASE("M9 B48 the state of a session resumes bit for bit in every form of storage") {
    for (const auto& storage :
         {amp::storage_options{.masters = masters::remainder, .moments = dtype::e4m3},
          amp::storage_options{.masters = masters::kahan, .moments = dtype::bf16, .stochastic_moments = true},
          amp::storage_options{.masters = masters::stochastic, .moments = dtype::fp16, .seed = 4}}) {
      auto first = session_of(storage), second = session_of(storage);
      train(*first, 6);
      const auto state = first->state();
      second->load(state);
      CHECK(second->state() == state);
      train(*first, 6), train(*second, 6);
      CHECK(weights(first->model()) == weights(second->model()));
      CHECK(first->state() == second->state());
    }
  }
  TEST_CASE("storage of masters means nothing at a level without them, that of moments does") {
    auto session = amp::initialize<amp::O3_bf16>(Net<float>{}, Adam{},
                                                 {.storage = {.masters = masters::kahan, .moments = dtype::bf16}});
    CHECK(session.optimizer().storage().masters == masters::none);
    CHECK(session.optimizer().storage().moments == amp::moment_formats(dtype::bf16));
    CHECK(session.optimizer().master_bytes() == 0);
  }
}
