#include "train/param_groups.hpp"

#include <doctest/doctest.h>

#include "config/errors.hpp"

using namespace clipbert::train;
using clipbert::config::Config;
using Names = std::vector<std::string>;

TEST_SUITE("schedule/param_groups") {
  TEST_CASE("names fall into eight groups by side, prefix and decay, frozen ones into none") {
    const std::vector<NamedParam> params{{"cnn.feature.backbone.stem.conv1.weight", false},
                                         {"cnn.feature.backbone.res3.0.conv1.weight"},
                                         {"cnn.feature.backbone.res3.0.conv1.norm.bias"},
                                         {"cnn.feature.backbone.res3.0.conv1.norm.weight"},
                                         {"cnn.grid_encoder.0.weight"},
                                         {"transformer.bert.embeddings.word_embeddings.weight"},
                                         {"transformer.bert.embeddings.LayerNorm.weight"},
                                         {"transformer.bert.embeddings.LayerNorm.bias"},
                                         {"transformer.bert.pooler.dense.bias"},
                                         {"transformer.classifier.0.weight"},
                                         {"transformer.classifier.0.bias"}};
    Config config;
    config.learning_rate = 2.0;
    config.cnn_learning_rate = 3.0;
    config.weight_decay = 0.1;
    config.cnn_weight_decay = 0.2;
    config.transformer_lr_mul = 10.0;
    config.transformer_lr_mul_prefix = "classifier";
    config.cnn_lr_mul = 100.0;
    const auto groups = eight_groups(params, config);
    CHECK(groups[0].names == Names{"transformer.classifier.0.weight"});
    CHECK(groups[1].names == Names{"transformer.classifier.0.bias"});
    CHECK(groups[2].names == Names{"transformer.bert.embeddings.word_embeddings.weight"});
    CHECK(groups[3].names == Names{"transformer.bert.embeddings.LayerNorm.weight",
                                   "transformer.bert.embeddings.LayerNorm.bias", "transformer.bert.pooler.dense.bias"});
    CHECK(groups[4].names == Names{"cnn.grid_encoder.0.weight"});
    CHECK(groups[5].names.empty());
    CHECK(groups[6].names ==
          Names{"cnn.feature.backbone.res3.0.conv1.weight", "cnn.feature.backbone.res3.0.conv1.norm.weight"});
    CHECK(groups[7].names == Names{"cnn.feature.backbone.res3.0.conv1.norm.bias"});
    // before the first schedule update groups without a factor have the transformer's rate, those of the cnn too
    const std::array<double, 8> rates{20, 20, 2, 2, 300, 300, 2, 2}, decays{0.1, 0, 0.1, 0, 0.2, 0, 0.2, 0};
    for (std::size_t i = 0; i < 8; ++i) {
      CHECK(groups[i].lr == rates[i]);
      CHECK(groups[i].weight_decay == decays[i]);
    }
  }

  TEST_CASE("without a prefix nothing is top, and a name of neither side is refused") {
    Config config;
    config.cnn_lr_mul_prefix = "";
    const auto groups = eight_groups(std::vector<NamedParam>{{"cnn.grid_encoder.0.weight"}}, config);
    CHECK(groups[4].names.empty());
    CHECK(groups[6].names == Names{"cnn.grid_encoder.0.weight"});
    CHECK_THROWS_AS(static_cast<void>(eight_groups(std::vector<NamedParam>{{"head.weight"}}, config)),
                    clipbert::usage_error);
    CHECK_NOTHROW(static_cast<void>(eight_groups(std::vector<NamedParam>{{"head.weight", false}}, config)));
  }
}
