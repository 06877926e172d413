#include "io/weight_names.hpp"

#include <doctest/doctest.h>

#include "config/errors.hpp"
#include "support/errors.hpp"

using namespace clipbert::io;
using test_support::has;
using Names = std::vector<std::string>;

namespace {

NameMatch match(const Names& file, const Names& model, const Names& prefixes = {""}) {
  Shapes from, to;
  for (const auto& name : file) from[name] = {2};
  for (const auto& name : model) to[name] = {2};
  return match_names(from, to, prefixes, "w.pt");
}

}  // namespace

TEST_SUITE("io/weight_names") {
  TEST_CASE("B54 module. is dropped from names, however often it stands there, and the report says so") {
    const auto found = match({"module.a.weight", "module.module.b"}, {"a.weight", "b"});
    CHECK(found.complete());
    CHECK(found.loaded.at("a.weight") == "module.a.weight");
    CHECK(has(found.report(), "2 of 2 tensors loaded"));
    CHECK(has(found.report(), "2 names without their \"module.\""));
    const auto own = match({"module.a"}, {"module.a"});
    CHECK(own.complete());
    CHECK(own.dropped_module == 0);
  }

  TEST_CASE("B54 a file of which nothing fits is no success") {
    const auto found = match({"x.weight", "y.weight"}, {"a.weight", "b.weight"});
    CHECK(found.share() == 0);
    CHECK(has(found.report(), "0 of 2 tensors loaded"));
    CHECK(found.missing == Names{"a.weight", "b.weight"});
    CHECK(found.unexpected == Names{"x.weight", "y.weight"});
    CHECK(match({}, {}).share() == 0);
  }

  TEST_CASE("B55 gamma and beta become weight and bias of a LayerNorm only, and the report says so") {
    const auto found = match({"bert.LayerNorm.gamma", "bert.LayerNorm.beta", "head.gamma", "layer_norm.gamma"},
                             {"bert.LayerNorm.weight", "bert.LayerNorm.bias", "head.gamma", "layer_norm.weight"});
    CHECK(found.complete());
    CHECK(found.renamed_norms == 3);
    CHECK(has(found.report(), "3 LayerNorm gamma and beta renamed"));
    const auto other = match({"head.gamma"}, {"head.weight"});
    CHECK(other.missing == Names{"head.weight"});
    CHECK(other.unexpected == Names{"head.gamma"});
    CHECK(match({"my.LayerNorm.gamma"}, {"my.LayerNorm.gamma"}).renamed_norms == 0);
  }

  TEST_CASE("a prefix is put before names that have one of the model with it") {
    const auto found = match({"embeddings.w", "classifier.w", "bert.pooler.w"},
                             {"bert.embeddings.w", "classifier.w", "bert.pooler.w"}, {"", "bert."});
    CHECK(found.complete());
    CHECK(found.added_prefix == 1);
    CHECK(match({"module.LayerNorm.gamma"}, {"bert.LayerNorm.weight"}, {"", "bert."}).complete());
  }

  TEST_CASE("two names that become one are refused, not chosen from") {
    const auto message = test_support::message_of<clipbert::content_error>([] {
      static_cast<void>(match({"a", "module.a"}, {"a"}));
    });
    CHECK(has(message, "w.pt"));
    CHECK(has(message, "module.a"));
  }

  TEST_CASE("the original's detector heads are accepted and named") {
    const auto found =
        match({"cnn.feature.roi_heads.x", "cnn.feature.proposal_generator.y", "cnn.feature.backbone.z", "other"},
              {"cnn.feature.backbone.z"});
    CHECK(found.detector == Names{"cnn.feature.proposal_generator.y", "cnn.feature.roi_heads.x"});
    CHECK(found.unexpected == Names{"other"});
    CHECK(has(found.report(), "2 of the detector, which nothing uses: cnn.feature.proposal_generator.y"));
    CHECK(match({"roi_heads.x", "backbone.z"}, {"cnn.feature.backbone.z"}, {"cnn.feature."}).complete());
  }

  TEST_CASE("shapes must be equal, not only the count of elements, and both are told") {
    const auto found = match_names({{"w", {6}}, {"v", {2}}}, {{"w", {2, 3}}, {"v", {2}}}, {""}, "w.pt");
    CHECK(found.mismatched == Names{"w"});
    CHECK(found.missing.empty());
    CHECK(found.share() == 0.5);
    CHECK(has(found.report(), "w: [6] in the file, [2, 3] in the model"));
  }

  TEST_CASE("a long report names the first few of each kind and counts all") {
    Names many;
    for (int i = 10; i < 30; ++i) many.push_back("t" + std::to_string(i));
    const auto report = match({}, many).report(2);
    CHECK(has(report, "20 missing, left as they were: t10, t11, ..."));
  }
}
