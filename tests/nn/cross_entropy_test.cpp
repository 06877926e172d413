#include <doctest/doctest.h>

#include <algorithm>
#include <amp/nn/cross_entropy.hpp>
#include <cmath>
#include <vector>

#include "nn/support.hpp"

using amp::dtype;
using test_nn::best;
using test_nn::Matrix;

namespace {
struct Case {
  Matrix logits, dlogits;
  std::vector<std::int64_t> labels;
  std::vector<float> loss, log_sum, dloss;

  Case(std::int64_t rows, std::int64_t classes, dtype type)
      : logits(rows, classes, type, 1),
        dlogits(rows, classes, type),
        loss(static_cast<std::size_t>(rows)),
        log_sum(loss.size()),
        dloss(loss.size()) {
    logits.random(1, 5.f);
    for (std::int64_t r = 0; r < rows; ++r) {
      labels.push_back(r * 7919 % classes);
      dloss[static_cast<std::size_t>(r)] = 0.25f * static_cast<float>(r % 5 + 1);
    }
  }
  void run(const amp::exec::any& executor, const amp::nn::cross_entropy_options& options = {}) {
    amp::nn::cross_entropy(executor, loss, log_sum, logits.view(), labels, options);
    amp::nn::cross_entropy_backward(executor, dlogits.view(), dloss, logits.view(), labels, log_sum, options);
  }
};
}  // namespace

TEST_SUITE("nn/cross_entropy") {
  TEST_CASE("K9 smoothed losses and gradients match double precision, losses of low logits are fp32") {
    for (const dtype type : {dtype::fp32, dtype::fp16, dtype::bf16}) {
      for (const std::int64_t classes : {1, 2, 10, 1000, 5000}) {
        for (const float e : {0.f, 0.1f, 1.f}) {
          CAPTURE(amp::name(type));
          CAPTURE(classes);
          CAPTURE(e);
          Case one(6, classes, type);
          one.run(best(), {.smoothing = e});
          const double smoothing = static_cast<double>(e), n = static_cast<double>(classes);
          std::vector<double> log_sums;
          for (std::int64_t r = 0; r < 6; ++r) {
            double top = -1e300, sum = 0, mean = 0;
            for (std::int64_t c = 0; c < classes; ++c) top = std::max(top, one.logits.at(r, c));
            for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(one.logits.at(r, c) - top);
            log_sums.push_back(top + std::log(sum));
            for (std::int64_t c = 0; c < classes; ++c) mean += (log_sums.back() - one.logits.at(r, c)) / n;
            const double nll = log_sums.back() - one.logits.at(r, one.labels[size_t(r)]);
            const double want = (1 - smoothing) * nll + smoothing * mean;
            CHECK(std::abs(static_cast<double>(one.loss[size_t(r)]) - want) < 2e-6 * (1 + std::abs(want)));
          }
          CHECK(test_nn::worst(one.dlogits, [&](auto r, auto c) {
                  const double target = c == one.labels[size_t(r)] ? 1 - smoothing : 0;
                  return static_cast<double>(one.dloss[size_t(r)]) *
                         (std::exp(one.logits.at(r, c) - log_sums[size_t(r)]) - target - smoothing / n);
                }) < test_nn::rounding(type) + 3e-6);
        }
      }
    }
  }

  TEST_CASE("K9 rows with the padding label give 0 and no gradient, whatever their logits hold") {
    Case one(5, 40, dtype::bf16);
    one.labels[1] = 0, one.labels[3] = 0;
    one.logits.set(3, 7, NAN);
    one.run(best(), {.smoothing = 0.1f, .padding_label = 0});
    for (const std::int64_t r : {std::int64_t{1}, std::int64_t{3}}) {
      CHECK(one.loss[size_t(r)] == 0.f);
      for (std::int64_t c = 0; c < 40; ++c) CHECK(one.dlogits.at(r, c) == 0);
    }
    CHECK(one.loss[2] > 0.f);
  }

  TEST_CASE("gradients may replace the logits, with the same bits on every executor") {
    Case first(70, 3000, dtype::bf16);
    first.run(amp::exec::scalar{}, {.smoothing = 0.2f});
    for (const auto& executor : test_nn::executors()) {
      Case one(70, 3000, dtype::bf16);
      one.run(executor.run, {.smoothing = 0.2f});
      CAPTURE(executor.name);
      CHECK(one.loss == first.loss);
      CHECK(one.dlogits.bytes() == first.dlogits.bytes());
      amp::nn::cross_entropy_backward(executor.run, one.logits.view(), one.dloss, one.logits.view(), one.labels,
                                      one.log_sum, {.smoothing = 0.2f});
      CHECK(test_nn::worst(one.logits, [&](auto r, auto c) { return first.dlogits.at(r, c); }) == 0);
    }
  }

  TEST_CASE("labels out of range, their number and a smoothing above 1 are refused") {
    Case one(3, 10, dtype::fp32);
    one.labels[2] = 10;
    CHECK_THROWS_WITH_AS(one.run(best()), doctest::Contains("label 10 of row 2 is not below the 10 classes"),
                         amp::error);
    one.labels[2] = -1;
    CHECK_THROWS_WITH_AS(one.run(best()), doctest::Contains("label -1 of row 2"), amp::error);
    one.labels.pop_back();
    CHECK_THROWS_WITH_AS(one.run(best()), doctest::Contains("2 labels for 3 rows"), amp::error);
    CHECK_THROWS_WITH_AS(one.run(best(), {.smoothing = 1.5f}), doctest::Contains("must be from 0 to 1"), amp::error);
  }
}
