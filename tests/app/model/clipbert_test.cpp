#include "model/clipbert.hpp"

#include <doctest/doctest.h>
#include <torch/torch.h>

#include <string>
#include <utility>
#include <vector>

#include "app/model/small_model.hpp"
#include "config/errors.hpp"
#include "model/loss.hpp"

using namespace clipbert;
using test_support::distance;
using test_support::small_model;
using test_support::SmallBatch;

namespace {

at::Tensor clip_by_clip(model::ClipBert& net, const SmallBatch& batch) {
  std::vector<at::Tensor> logits;
  for (std::int64_t c = 0; c < batch.clips; ++c) {
    logits.push_back(net.forward(batch.clip(c), batch.ids, batch.mask, batch.n_examples));
  }
  return at::stack(logits);
}

/// Gradients by name of the mean lse loss, which are then cleared.
std::map<std::string, at::Tensor> gradients(model::ClipBert& net, const at::Tensor& logits, const SmallBatch& batch) {
  model::example_losses(logits, batch.labels, 2, {.aggregation = "lse"}).mean().backward();
  std::map<std::string, at::Tensor> all;
  for (auto& item : net.named_parameters()) {
    if (item.value().grad().defined()) all.emplace(item.key(), std::exchange(item.value().mutable_grad(), {}));
  }
  return all;
}

void check_same_gradients(const std::map<std::string, at::Tensor>& a, const std::map<std::string, at::Tensor>& b) {
  REQUIRE(a.size() == b.size());
  for (const auto& [name, gradient] : a) {
    REQUIRE(b.contains(name));
    CHECK_MESSAGE(distance(gradient, b.at(name)) <= 1e-6 + 1e-5 * gradient.abs().max().item<double>(), name);
  }
}

}  // namespace

TEST_SUITE("model/clipbert") {
  TEST_CASE("the full-size model has 148,826,306 parameters, of which 148,603,906 train") {
    config::ModelConfig transformer;
    transformer.num_labels = 2;
    const model::ClipBert net(transformer, config::CnnConfig{});
    std::int64_t all = 0, trained = 0;
    for (const auto& parameter : net.parameters()) {
      all += parameter.numel();
      if (parameter.requires_grad()) trained += parameter.numel();
    }
    CHECK(all == 148'826'306);
    CHECK(trained == 148'603'906);
  }
  TEST_CASE("linear and embedding weights start normal, the pad row too, biases 0, layer norms 1 and 0") {
    torch::manual_seed(2);
    auto config = test_support::small_transformer();
    config.hidden_size = 64, config.vocab_size = 200, config.initializer_range = 0.02;
    const model::ClipBert net(config, test_support::small_cnn());
    for (const auto& item : net.named_parameters()) {
      if (!item.key().starts_with("transformer.")) continue;
      const double spread = item.value().numel() > 1 ? item.value().std().item<double>() : 0.0;
      if (item.key().ends_with("LayerNorm.weight")) {
        CHECK_MESSAGE(item.value().eq(1).all().item<bool>(), item.key());
      } else if (item.key().ends_with("bias")) {
        CHECK_MESSAGE(item.value().eq(0).all().item<bool>(), item.key());
      } else if (item.value().numel() > 1000) {
        CHECK_MESSAGE(spread == doctest::Approx(0.02).epsilon(0.1), item.key());
      }
    }
    const auto& words = net.named_parameters()["transformer.bert.embeddings.word_embeddings.weight"];
    CHECK(words[0].abs().max().item<double>() > 0);
  }
  TEST_CASE("all clips at once give the logits and gradients of one clip after the other, for both norms") {
    const SmallBatch batch;
    for (const char* norm : {"frozen_bn", "bn"}) {
      CAPTURE(std::string(norm));
      const auto net = small_model(norm);
      const auto apart = clip_by_clip(*net, batch);
      const auto expected = gradients(*net, apart, batch);
      const auto other = small_model(norm);  // fresh running statistics
      const auto together = other->forward_clips(batch.frames, batch.clips, batch.ids, batch.mask, batch.n_examples);
      CHECK(together.sizes() == at::IntArrayRef({2, 5, 2}));
      CHECK(distance(together, apart) < 1e-5);
      CHECK(distance(apart[0], apart[1]) > 1e-3);
      check_same_gradients(expected, gradients(*other, together, batch));
      for (const auto& [name, tensor] : net->named_tensors()) {
        CHECK_MESSAGE(distance(other->named_tensors().at(name), tensor) < 1e-6, name);
      }
    }
  }
  TEST_CASE("noting activations does not change the logits") {
    const SmallBatch batch;
    const auto net = small_model();
    model::Activations kept;
    const auto whole = net->forward(batch.clip(0), batch.ids, batch.mask, batch.n_examples, &kept);
    CHECK(distance(net->forward(batch.clip(0), batch.ids, batch.mask, batch.n_examples), whole) < 1e-6);
    CHECK(kept.at("sequence_output").sizes() == at::IntArrayRef({5, 9 + 4 * 6, 16}));
    CHECK(kept.at("visual_embedding").sizes() == at::IntArrayRef({5, 24, 16}));
    CHECK(kept.at("grid").sizes() == at::IntArrayRef({2, 2, 4, 6, 16}));
  }
  TEST_CASE("padding behind a caption changes nothing, whatever ids stand there") {
    const SmallBatch batch;
    const auto net = small_model();
    const auto expected = net->forward(batch.clip(0), batch.ids, batch.mask, batch.n_examples);
    const auto ids = at::constant_pad_nd(batch.ids, {0, 3}, 5), mask = at::constant_pad_nd(batch.mask, {0, 3});
    model::Activations kept;  // with it, nothing is trimmed
    CHECK(distance(net->forward(batch.clip(0), ids, mask, batch.n_examples), expected) < 1e-6);
    CHECK(distance(net->forward(batch.clip(0), ids, mask, batch.n_examples, &kept), expected) < 1e-6);
    CHECK(model::used_length(mask) == 9);
    CHECK(model::used_length(at::zeros({2, 4}, at::kLong)) == 1);
  }
  TEST_CASE("each video's row is repeated for its captions, with equal and unequal counts") {
    const auto rows = at::arange(6).view({3, 2});
    const auto from = [&](std::vector<std::int64_t> counts) { return model::repeat_rows(rows, counts).select(1, 0); };
    CHECK(at::equal(from({2, 2, 2}), at::tensor({0, 0, 2, 2, 4, 4}, at::kLong)));
    CHECK(at::equal(from({1, 3, 2}), at::tensor({0, 2, 2, 2, 4, 4}, at::kLong)));
    CHECK(at::equal(from({1, 1, 1}), at::tensor({0, 2, 4}, at::kLong)));
  }
  TEST_CASE("bf16 logits come out in fp32 and stay close to those of fp32, fp64 stays fp64") {
    const SmallBatch batch;
    for (const char* norm : {"frozen_bn", "bn"}) {
      CAPTURE(std::string(norm));
      const auto net = small_model(norm);
      const auto expected = clip_by_clip(*net, batch);
      const auto low = small_model(norm), wide = small_model(norm);
      low->cast(at::kBFloat16), wide->to(at::kDouble);
      const auto logits = low->forward_clips(batch.frames, batch.clips, batch.ids, batch.mask, batch.n_examples);
      CHECK((logits.scalar_type() == at::kFloat));
      const double error = (logits - expected).norm().item<double>() / expected.norm().item<double>();
      CHECK(error < 16 * 0x1p-8);  // sixteen roundings of bf16
      CHECK(distance(logits, expected) > 0);
      const auto exact = clip_by_clip(*wide, batch);
      CHECK((exact.scalar_type() == at::kDouble));
      CHECK(distance(exact, expected) < 1e-4);
    }
  }
  TEST_CASE("the gradient in bf16 is within a quarter of that in fp32, by the norm over all weights") {
    const SmallBatch batch;
    const auto net = small_model("bn"), low = small_model("bn");
    low->cast(at::kBFloat16);
    const auto run = [&](model::ClipBert& m) {
      return gradients(m, m.forward_clips(batch.frames, batch.clips, batch.ids, batch.mask, batch.n_examples), batch);
    };
    const auto expected = run(*net), got = run(*low);
    double norm = 0, error = 0;
    for (const auto& [name, gradient] : expected) {
      norm += gradient.square().sum().item<double>();
      error += (got.at(name).to(at::kFloat) - gradient).square().sum().item<double>();
    }
    CHECK(error > 0);
    CHECK(error < 0.0625 * norm);
  }
  TEST_CASE("cast keeps the norms that are to stay fp32, and every counter") {
    for (const bool wide : {true, false}) {
      for (const char* norm : {"frozen_bn", "bn"}) {
        const auto net = small_model(norm);
        net->cast(at::kBFloat16, {.trained_fp32 = wide, .frozen_fp32 = wide});
        CHECK((net->type() == at::kBFloat16));
        for (const auto& [name, tensor] : net->named_tensors()) {
          const bool counter = name.ends_with("num_batches_tracked");
          const bool is_norm = name.find(".norm.") != std::string::npos;
          const auto expected = counter ? at::kLong : is_norm && wide ? at::kFloat : at::kBFloat16;
          CHECK_MESSAGE((tensor.scalar_type() == expected), name);
        }
      }
    }
  }
  TEST_CASE("dropout acts in training only, and differs between captions of one video") {
    const SmallBatch batch;
    const auto net = small_model("frozen_bn", 2, 0.4);
    const auto run = [&] { return net->forward(batch.clip(0), batch.ids, batch.mask, batch.n_examples); };
    CHECK(distance(run(), run()) > 1e-3);
    const std::vector<std::int64_t> twice{2};
    const auto same = batch.ids.narrow(0, 0, 1).repeat({2, 1}), mask = batch.mask.narrow(0, 0, 1).repeat({2, 1});
    const auto logits = net->forward(batch.clip(0).narrow(0, 0, 1), same, mask, twice);
    CHECK(distance(logits[0], logits[1]) > 1e-3);
    net->eval();
    CHECK(distance(run(), run()) == 0);
  }
  TEST_CASE("freeze_cnn freezes the trunk and leaves the grid encoder") {
    const auto net = small_model("bn");
    net->freeze_cnn();
    for (const auto& item : net->named_parameters()) {
      CHECK_MESSAGE(item.value().requires_grad() != item.key().starts_with("cnn.feature."), item.key());
    }
  }
  TEST_CASE("settings that cannot be built are refused with what to do") {
    auto config = test_support::small_transformer(3);
    CHECK_THROWS_AS(model::ClipBert(config, test_support::small_cnn()), usage_error);
    config = test_support::small_transformer();
    config.num_attention_heads = 3;
    CHECK_THROWS_WITH_AS(model::ClipBert(config, test_support::small_cnn()),
                         "model_config.hidden_size 16 is not a multiple of num_attention_heads 3", usage_error);
    const auto net = small_model();
    CHECK_THROWS_AS(net->embed_text(at::ones({1, 13}, at::kLong)), usage_error);
    CHECK_THROWS_AS(net->embed_grid(at::ones({1, 1, 9, 2, 16})), usage_error);
  }
}
