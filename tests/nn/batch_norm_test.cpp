#include <doctest/doctest.h>

#include <amp/nn/batch_norm.hpp>
#include <cmath>
#include <optional>
#include <vector>

#include "nn/support.hpp"

using amp::dtype;
using amp::nn::channel_stats;
using test_nn::best;
using test_nn::Matrix;

namespace {

/// A batch in either layout; value(b, c, s) finds an element.
struct Batch {
  std::int64_t batch, channels, inner;
  bool last;
  Matrix m;

  Batch(std::int64_t b, std::int64_t c, std::int64_t s, bool channels_last, dtype type)
      : batch(b),
        channels(c),
        inner(s),
        last(channels_last),
        m(channels_last ? b * s : b * c, channels_last ? c : s, type) {}
  /// The same values in both layouts.
  Batch& random(std::uint64_t seed, float scale = 1.f, float offset = 0.f) {
    test_nn::Random values(seed);
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t c = 0; c < channels; ++c) {
        for (std::int64_t s = 0; s < inner; ++s) {
          const auto [row, column] = place(b, c, s);
          m.set(row, column, values.uniform() * scale + offset + static_cast<float>(c));
        }
      }
    }
    return *this;
  }
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> place(std::int64_t b, std::int64_t c, std::int64_t s) const {
    return last ? std::pair{b * inner + s, c} : std::pair{b * channels + c, s};
  }
  [[nodiscard]] double value(std::int64_t b, std::int64_t c, std::int64_t s) const {
    const auto [row, column] = place(b, c, s);
    return m.at(row, column);
  }
  amp::nn::channel_view view() { return {m.view(), channels, last}; }
};

/// Calls f(b, s) for each element of a channel.
template <class F>
void each(const Batch& x, const F& f) {
  for (std::int64_t b = 0; b < x.batch; ++b) {
    for (std::int64_t s = 0; s < x.inner; ++s) f(b, s);
  }
}
struct Moments {
  double mean = 0, variance = 0;
};
Moments moments(const Batch& x, std::int64_t c) {
  const double n = static_cast<double>(x.batch * x.inner);
  Moments m;
  each(x, [&](auto b, auto s) { m.mean += x.value(b, c, s) / n; });
  each(x, [&](auto b, auto s) { m.variance += std::pow(x.value(b, c, s) - m.mean, 2) / n; });
  return m;
}

}  // namespace

TEST_SUITE("nn/batch_norm") {
  TEST_CASE("K7 low batches with fp32 weights: output and gradients match double precision in both layouts") {
    for (const bool last : {false, true}) {
      for (const dtype type : {dtype::fp32, dtype::fp16, dtype::bf16}) {
        for (const bool fused : {false, true}) {
          CAPTURE(last);
          CAPTURE(amp::name(type));
          CAPTURE(fused);
          Batch x(5, 7, 90, last, type), y = x, dy = x, dx = x, added = x, dadded = x;
          Matrix gamma(1, 7), beta(1, 7);
          x.random(1, 2.f), dy.random(2), added.random(3), gamma.random(4, 0.5f, 1.f), beta.random(5);
          const auto stats = amp::nn::batch_statistics(best(), x.view());
          amp::nn::batch_norm(best(), y.m.view(), x.view(), stats, gamma.vector(), beta.vector(),
                              {.relu = fused, .added = fused ? added.m.view() : amp::matrix_view{}});
          const auto masked = fused ? y.m.view() : amp::matrix_view{};
          const auto sums = amp::nn::batch_norm_sums(best(), dy.m.view(), x.view(), stats, masked);
          std::vector<float> dgamma, dbeta;
          amp::nn::batch_norm_backward(best(),
                                       {dx.m.view(), fused ? dadded.m.view() : amp::matrix_view{}, &dgamma, &dbeta},
                                       dy.m.view(), x.view(), stats, sums, sums, gamma.vector(), masked);
          double off = 0, off_dx = 0;
          for (std::int64_t c = 0; c < 7; ++c) {
            const Moments m = moments(x, c);
            const double rstd = 1 / std::sqrt(m.variance + 1e-5), n = static_cast<double>(x.batch * x.inner);
            CHECK(stats[size_t(c)].mean == doctest::Approx(m.mean).epsilon(1e-6));
            CHECK(stats[size_t(c)].variance() == doctest::Approx(m.variance).epsilon(1e-5));
            double a = 0, b2 = 0;
            const auto grad = [&](auto b, auto s) {
              const double g = dy.value(b, c, s);
              return fused && !(y.value(b, c, s) > 0) ? 0.0 : g;
            };
            each(x, [&](auto b, auto s) { a += grad(b, s), b2 += grad(b, s) * (x.value(b, c, s) - m.mean) * rstd; });
            CHECK(static_cast<double>(dbeta[size_t(c)]) == doctest::Approx(a).epsilon(1e-5));
            CHECK(static_cast<double>(dgamma[size_t(c)]) == doctest::Approx(b2).epsilon(1e-4));
            each(x, [&](auto b, auto s) {
              const double xhat = (x.value(b, c, s) - m.mean) * rstd;
              double want = xhat * gamma[c] + beta[c];
              if (fused) want = std::max(0.0, want + added.value(b, c, s));
              off = std::max(off, std::abs(y.value(b, c, s) - want) / (1 + std::abs(want)));
              const double want_dx = gamma[c] * rstd * (grad(b, s) - a / n - xhat * b2 / n);
              off_dx = std::max(off_dx, std::abs(dx.value(b, c, s) - want_dx) / (1 + std::abs(want_dx)));
              if (fused) CHECK(dadded.value(b, c, s) == grad(b, s));
            });
          }
          CHECK(off < test_nn::rounding(type) + 3e-6);
          CHECK(off_dx < test_nn::rounding(type) + 3e-6);
        }
      }
    }
  }

  TEST_CASE("K8 ranks with different and empty batches merge to the statistics of the whole batch") {
    std::vector<std::vector<channel_stats>> ranks;
    std::vector<double> all;
    for (const std::int64_t batch : {3, 0, 1, 8, 0}) {
      Batch part(batch, 1, 50, false, dtype::fp32);
      part.random(static_cast<std::uint64_t>(batch) + 3, 2.f, 100.f);
      each(part, [&](auto b, auto s) { all.push_back(part.value(b, 0, s)); });
      ranks.push_back(amp::nn::batch_statistics(best(), part.view()));
      CHECK(ranks.back()[0].count == batch * 50);
    }
    double mean = 0, m2 = 0;
    for (const double v : all) mean += v / static_cast<double>(all.size());
    for (const double v : all) m2 += (v - mean) * (v - mean);
    const auto whole = amp::nn::merge_ranks(ranks);
    CHECK(whole[0].count == static_cast<std::int64_t>(all.size()));
    CHECK(whole[0].mean == doctest::Approx(mean).epsilon(1e-7));
    CHECK(whole[0].m2 == doctest::Approx(m2).epsilon(1e-5));
    const std::vector<std::vector<channel_stats>> group(ranks.begin(), ranks.begin() + 2);  // a sub-group
    CHECK(amp::nn::merge_ranks(group)[0].count == 150);
    CHECK(amp::nn::merge_ranks({}).empty());
    ranks[2].clear();
    CHECK_THROWS_WITH_AS(static_cast<void>(amp::nn::merge_ranks(ranks)), doctest::Contains("rank 2 has 0 channels"),
                         amp::error);
  }

  TEST_CASE("K8 gradients over two ranks are those of one rank with the whole batch") {
    for (const bool last : {false, true}) {
      Batch whole(6, 3, 20, last, dtype::fp32), dy = whole, dx = whole;
      whole.random(1), dy.random(2);
      const auto stats = amp::nn::batch_statistics(best(), whole.view());
      const auto sums = amp::nn::batch_norm_sums(best(), dy.m.view(), whole.view(), stats);
      amp::nn::batch_norm_backward(best(), {.dx = dx.m.view()}, dy.m.view(), whole.view(), stats, sums, sums);
      // Rows of the first two samples, then of the other four, are a rank each.
      const std::int64_t per_sample = whole.m.rows() / 6;
      const auto part = [&](Batch& b, std::int64_t first, std::int64_t count) {
        auto v = b.m.view();
        v.data = static_cast<float*>(v.data) + first * per_sample * v.stride;
        v.rows = count * per_sample;
        return v;
      };
      const auto rank = [&](Batch& b, int k) { return k == 0 ? part(b, 0, 2) : part(b, 2, 4); };
      std::vector<std::vector<channel_stats>> ranks;
      for (int k = 0; k < 2; ++k) ranks.push_back(amp::nn::batch_statistics(best(), {rank(whole, k), 3, last}));
      const auto merged = amp::nn::merge_ranks(ranks);
      std::vector<amp::nn::channel_gradient> total(3);
      std::vector<std::vector<amp::nn::channel_gradient>> own;
      for (int k = 0; k < 2; ++k) {
        own.push_back(amp::nn::batch_norm_sums(best(), rank(dy, k), {rank(whole, k), 3, last}, merged));
        for (std::size_t c = 0; c < 3; ++c) total[c].dy += own.back()[c].dy, total[c].dy_x += own.back()[c].dy_x;
      }
      Batch apart = dx;
      for (int k = 0; k < 2; ++k) {
        amp::nn::batch_norm_backward(best(), {.dx = rank(apart, k)}, rank(dy, k), {rank(whole, k), 3, last}, merged,
                                     own[static_cast<std::size_t>(k)], total);
      }
      CHECK(test_nn::worst(apart.m, [&](auto r, auto c) { return dx.m.at(r, c); }) < 2e-6);
    }
  }

  TEST_CASE("K8 running statistics take the unbiased variance, and a single element in all is an error") {
    const std::vector<channel_stats> batch{{2.0, 8.0, 5}}, one{{2.0, 0.0, 1}}, none{{0.0, 0.0, 0}};
    std::vector<float> mean{1.f}, variance{1.f};
    amp::nn::update_running(mean, variance, batch, 0.25);
    CHECK(mean[0] == doctest::Approx(0.75 * 1 + 0.25 * 2));
    CHECK(variance[0] == doctest::Approx(0.75 * 1 + 0.25 * 8 / 4));
    mean[0] = 1.f, variance[0] = 1.f;  // without momentum: the average so far
    amp::nn::update_running(mean, variance, batch, std::nullopt, 1);
    CHECK((mean[0] == 2.f && variance[0] == 2.f));
    amp::nn::update_running(mean, variance, std::vector<channel_stats>{{5.0, 20.0, 5}}, std::nullopt, 2);
    CHECK((mean[0] == 3.5f && variance[0] == 3.5f));
    amp::nn::update_running(mean, variance, none, 0.5);
    CHECK(mean[0] == 3.5f);
    CHECK_THROWS_WITH_AS(amp::nn::update_running(mean, variance, one, 0.1),
                         doctest::Contains("more than one value per channel"), amp::error);
    CHECK_THROWS_WITH_AS(amp::nn::update_running(mean, variance, batch, 1.5), doctest::Contains("from 0 to 1"),
                         amp::error);
    CHECK_THROWS_WITH_AS(amp::nn::update_running(mean, variance, batch, std::nullopt, 0),
                         doctest::Contains("the first is number 1"), amp::error);
    CHECK(mean[0] == 3.5f);
  }

  TEST_CASE("channels that the lines do not divide into, and matrices of another shape, are refused by name") {
    for (const bool last : {false, true}) {
      Batch x(3, 4, 5, last, dtype::fp32), other(3, 4, 6, last, dtype::fp32);
      x.random(1), other.random(2);
      const auto stats = amp::nn::batch_statistics(best(), x.view());
      const auto refuses = [&](const char* text, const auto& call) {
        CHECK_THROWS_WITH_AS(call(), doctest::Contains(text), amp::error);
      };
      const amp::nn::channel_view five{x.m.view(), 5, last};
      const std::vector<channel_stats> five_stats(5, {0., 1., 1});
      refuses("has not 5 channels", [&] { return amp::nn::batch_statistics(best(), five); });
      refuses("has not 5 channels", [&] { amp::nn::batch_norm(best(), x.m.view(), five, five_stats); });
      refuses("5 statistics for 4", [&] { amp::nn::batch_norm(best(), x.m.view(), x.view(), five_stats); });
      refuses("must not be negative",
              [&] { amp::nn::batch_norm(best(), x.m.view(), x.view(), stats, {}, {}, {.eps = -1.f}); });
      refuses("added is",
              [&] { amp::nn::batch_norm(best(), x.m.view(), x.view(), stats, {}, {}, {.added = other.m.view()}); });
      refuses("y is", [&] { return amp::nn::batch_norm_sums(best(), x.m.view(), x.view(), stats, other.m.view()); });
      const auto sums = amp::nn::batch_norm_sums(best(), x.m.view(), x.view(), stats);
      const auto backward = [&](const amp::nn::batch_norm_gradients& to, const amp::matrix_view& y) {
        amp::nn::batch_norm_backward(best(), to, x.m.view(), x.view(), stats, sums, sums, {}, y);
      };
      refuses("y is", [&] { backward({.dx = x.m.view()}, other.m.view()); });
      refuses("dadded is", [&] { backward({.dx = x.m.view(), .dadded = other.m.view()}, {}); });
    }
  }

  TEST_CASE("large offsets keep their digits, and every executor gives the same bits") {
    for (const bool last : {false, true}) {
      std::vector<unsigned char> first;
      Batch x(4, 5, 700, last, dtype::fp32);
      x.random(1, 0.5f, 1e4f);
      const auto stats = amp::nn::batch_statistics(best(), x.view());
      for (std::int64_t c = 0; c < 5; ++c) {
        const Moments m = moments(x, c);
        CHECK(stats[size_t(c)].mean == doctest::Approx(m.mean).epsilon(1e-7));
        CHECK(stats[size_t(c)].variance() == doctest::Approx(m.variance).epsilon(1e-4));
      }
      for (const auto& executor : test_nn::executors()) {
        Batch y = x, dx = x;
        const auto s = amp::nn::batch_statistics(executor.run, x.view());
        amp::nn::batch_norm(executor.run, y.m.view(), x.view(), s, {}, {}, {.relu = true});
        const auto sums = amp::nn::batch_norm_sums(executor.run, x.m.view(), x.view(), s, y.m.view());
        amp::nn::batch_norm_backward(executor.run, {.dx = dx.m.view()}, x.m.view(), x.view(), s, sums, sums, {},
                                     y.m.view());
        std::vector<unsigned char> all = y.m.bytes();
        all.insert(all.end(), dx.m.bytes().begin(), dx.m.bytes().end());
        if (first.empty()) first = all;
        CAPTURE(executor.name);
        CHECK(all == first);
      }
    }
  }
}
