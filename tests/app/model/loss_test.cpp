#include "model/loss.hpp"

#include <doctest/doctest.h>
#include <torch/torch.h>

#include <cmath>

#include "app/model/small_model.hpp"
#include "config/errors.hpp"

using namespace clipbert;
using test_support::distance;

TEST_SUITE("model/loss") {
  TEST_CASE("logits of clips are pooled by mean, max or logsumexp") {
    const auto logits = at::tensor({1.f, 2.f, 3.f, 0.f}).view({2, 1, 2});
    CHECK(distance(model::pooled_scores(logits, "mean"), at::tensor({2.f, 1.f}).view({1, 2})) < 1e-6);
    CHECK(distance(model::pooled_scores(logits, "max"), at::tensor({3.f, 2.f}).view({1, 2})) < 1e-6);
    const auto lse = model::pooled_scores(logits, "lse");
    CHECK(lse[0][0].item<double>() == doctest::Approx(std::log(std::exp(1.0) + std::exp(3.0))));
    CHECK(lse[0][1].item<double>() == doctest::Approx(std::log(std::exp(2.0) + 1.0)));
  }
  TEST_CASE("a pair is ranked by the softmax of class 1, or the sigmoid of its only label") {
    const auto two = at::tensor({0.f, 1.f}).view({1, 1, 2});
    CHECK(model::match_probability(two, "mean")[0].item<double>() == doctest::Approx(1 / (1 + std::exp(-1.0))));
    CHECK(model::match_probability(at::full({1, 1, 1}, 2.0), "max")[0].item<double>() ==
          doctest::Approx(1 / (1 + std::exp(-2.0))));
  }
  TEST_CASE("lse is the negative log of the right class' share over all clips and classes") {
    const auto logits = at::tensor({1.f, 2.f, 3.f, 0.f}).view({2, 1, 2});
    const double all = std::exp(1.0) + std::exp(2.0) + std::exp(3.0) + 1.0;
    const auto loss = model::example_losses(logits, at::tensor({1}, at::kLong), 1, {.aggregation = "lse"});
    CHECK(loss.sizes() == at::IntArrayRef({1, 1}));
    CHECK(loss.item<double>() == doctest::Approx(std::log(all / (std::exp(2.0) + 1.0))));
  }
  TEST_CASE("huge logits overflow no loss") {
    const auto logits = at::tensor({300.f, -300.f, 200.f, 100.f}).view({2, 1, 2});
    for (const char* how : {"lse", "mean", "max"}) {
      const auto loss = model::example_losses(logits, at::tensor({1}, at::kLong), 1, {.aggregation = how});
      CHECK_MESSAGE(loss.isfinite().all().item<bool>(), how);
    }
  }
  TEST_CASE("the rank loss compares each video's first caption with its others") {
    const auto logits = at::tensor({2.f, 0.f, 1.f, -1.f, 3.f, -1.f}).view({1, 6, 1});
    const auto loss = model::example_losses(logits, at::zeros({6}, at::kLong), 2,
                                            {.aggregation = "mean", .type = "rank", .margin = 0.5});
    const auto s = [](double x) { return 1 / (1 + std::exp(-x)); };
    CHECK(loss.sizes() == at::IntArrayRef({2, 2}));
    CHECK(loss[0][0].item<double>() == doctest::Approx(0.5 + s(0) - s(2)));
    CHECK(loss[0][1].item<double>() == doctest::Approx(0.5 + s(1) - s(2)));
    CHECK(loss[1][0].item<double>() == doctest::Approx(0.5 + s(3) - s(-1)));
    CHECK(loss[1][1].item<double>() == doctest::Approx(0.5));
  }
  TEST_CASE("unknown words, lse with rank and uneven captions are refused") {
    const auto logits = at::zeros({2, 3, 1});
    const auto labels = at::zeros({3}, at::kLong);
    const auto run = [&](const char* how, const char* type, std::int64_t videos) {
      model::example_losses(logits, labels, videos, {.aggregation = how, .type = type});
    };
    CHECK_THROWS_AS(run("lse", "rank", 3), usage_error);
    CHECK_THROWS_AS(run("median", "ce", 3), usage_error);
    CHECK_THROWS_AS(run("mean", "hinge", 3), usage_error);
    CHECK_THROWS_AS(run("mean", "rank", 2), usage_error);
    CHECK_NOTHROW(run("mean", "rank", 1));
  }
}
