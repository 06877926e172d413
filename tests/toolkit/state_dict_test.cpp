#include <doctest/doctest.h>

#include <amp/optim/sgd.hpp>
#include <amp/state_dict.hpp>
#include <cstring>
#include <vector>

#include "toolkit/net.hpp"

using amp::Sgd;
using toolkit_test::masters;
using toolkit_test::Net;
using toolkit_test::weights;

namespace {
std::vector<float> values(const amp::SavedTensor& t) {
  std::vector<float> v(t.bytes.size() / 4);
  std::memcpy(v.data(), t.bytes.data(), t.bytes.size());
  return v;
}
}  // namespace

TEST_SUITE("toolkit/state_dict") {
  TEST_CASE("the model's state lists all parameters as fp32 under their names, at every level") {
    auto session = amp::initialize<amp::O2_bf16>(Net<float>{}, Sgd{});
    const auto saved = amp::model_state(session);
    REQUIRE(saved.size() == 3);
    for (const auto& [name, tensor] : saved) CHECK(tensor.type == "F32");
    CHECK(values(saved.at("a"))[1] == float(amp::bfloat16(1.1f)));
    CHECK(values(saved.at("n"))[0] == 1.f);
  }
  TEST_CASE("fp32 weights load into any level: low parameters are rounded, masters keep every bit") {
    auto source = amp::initialize<amp::O0>(Net<float>{}, Sgd{.lr = 0.37});
    amp::scale_loss(1.f, source, [&](float s) { source.model().backward(s); });
    source.step();
    const auto saved = amp::model_state(source);
    auto target = amp::initialize<amp::O2>(Net<float>{}, Sgd{});
    amp::load_model_state(target, saved);
    CHECK(masters(target) == weights(source.model()));
    CHECK(float(target.model().a[1]) == float(amp::half(source.model().a[1])));
    auto pure = amp::initialize<amp::O3_bf16>(Net<float>{}, Sgd{});
    amp::load_model_state(pure, saved);
    CHECK(float(pure.model().a[1]) == float(amp::bfloat16(source.model().a[1])));
  }
  TEST_CASE("a state that lacks a parameter, or has another size of it, is refused by name and changes nothing") {
    auto session = amp::initialize<amp::O2>(Net<float>{}, Sgd{});
    auto saved = amp::model_state(session);
    saved.erase("n");
    for (auto& byte : saved["a"].bytes) byte = std::byte{0};
    const auto before = weights(session.model());
    CHECK_THROWS_WITH_AS(amp::load_model_state(session, saved), doctest::Contains("\"n\""), amp::error);
    CHECK(weights(session.model()) == before);
  }
}
