/// BatchNorm with fp32 statistics and weights over low or fp32 batches (K7's rule), and the arithmetic that joins the
/// statistics of several ranks; how they travel is the caller's affair.
#pragma once
#include <amp/apply/exec.hpp>
#include <amp/nn/batch_norm_kernels.hpp>
#include <amp/nn/rows.hpp>
#include <amp/tensor/matrix.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace amp::nn {

/// Mean, sum of squared differences about it and number of elements of one channel on one rank.
struct channel_stats {
  double mean = 0, m2 = 0;
  std::int64_t count = 0;

  [[nodiscard]] double variance() const noexcept {
    return count > 0 ? m2 / static_cast<double>(count) : 0;
  }  ///< biased
};

/// The statistics of both parts together; either may be empty.
/// source  Chan, Golub & LeVeque 1979, eq. 2.1
[[nodiscard]] inline channel_stats merge(const channel_stats& a, const channel_stats& b) noexcept {
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  const std::int64_t n = a.count + b.count;
  const double delta = b.mean - a.mean, share = static_cast<double>(b.count) / static_cast<double>(n);
  return {a.mean + delta * share, a.m2 + b.m2 + delta * delta * static_cast<double>(a.count) * share, n};
}
/// Channel by channel over ranks, in their order: every rank that merges the same list gets the same bits. Give the
/// list of a sub-group for statistics of that sub-group. All lists are as long as there are channels.
/// throws  amp::error naming the rank whose list has another length
[[nodiscard]] inline std::vector<channel_stats> merge_ranks(std::span<const std::vector<channel_stats>> ranks,
                                                            where at = where::here()) {
  std::vector<channel_stats> all;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (rank == 0) all.resize(ranks[0].size());
    expects(
        ranks[rank].size() == all.size(),
        [&] {
          return "rank " + std::to_string(rank) + " has " + std::to_string(ranks[rank].size()) + " channels, rank 0 " +
                 std::to_string(all.size());
        },
        at);
    for (std::size_t c = 0; c < all.size(); ++c) all[c] = merge(all[c], ranks[rank][c]);
  }
  return all;
}

/// throws  amp::error unless the lines divide into the channels
inline void expects_channel_view(const channel_view& x, where at) {
  expects_matrix(x.lines, x.lines.rows, x.lines.columns, "x", false, at);
  expects(
      x.channels_last ? x.lines.columns == x.channels
                      : (x.channels > 0 ? x.lines.rows % x.channels == 0 : x.lines.rows == 0),
      [&] {
        return "x is " + std::to_string(x.lines.rows) + " x " + std::to_string(x.lines.columns) + ", which has not " +
               std::to_string(x.channels) + " channels " + (x.channels_last ? "in a row" : "in turn");
      },
      at);
}

/// The statistics of a batch on this rank, in fp32 about the mean (two passes); counts are 0 for an empty batch.
/// throws  amp::error for lines that do not divide into the channels
template <exec::HostExecutor E>
[[nodiscard]] std::vector<channel_stats> batch_statistics(const E& executor, const channel_view& x,
                                                          where at = where::here()) {
  expects_channel_view(x, at);
  std::vector<channel_stats> stats(static_cast<std::size_t>(x.channels));
  const auto blocks = channel_blocks(x);
  if (x.per_channel() == 0) return stats;
  const std::int64_t parts = x.channels_last ? blocks.count() : 1;
  std::vector<float> out(static_cast<std::size_t>(parts * 2 * x.channels));
  run_items<channel_moments>(executor, blocks.count(), x.lines.rows * x.lines.columns,
                             channel_moments::args{x, blocks, out.data()});
  for (std::int64_t b = 0; b < parts; ++b) {
    const std::int64_t count = x.channels_last ? blocks.end(b) - blocks.begin(b) : x.per_channel();
    for (std::size_t c = 0; c < stats.size(); ++c) {
      const float* p = out.data() + static_cast<std::size_t>(b * 2 * x.channels) + c;
      stats[c] = merge(stats[c], {static_cast<double>(p[0]), static_cast<double>(p[x.channels]), count});
    }
  }
  return stats;
}

/// Moves running statistics towards a batch's: (1 - momentum) running + momentum batch, the variance with n / (n - 1).
/// Without a momentum the average over all batches so far, of which this is number `batches` (1 for the first).
/// throws  amp::error for a channel with a single element in all, which has no variance, for a momentum outside 0 to 1
///         and for a count of batches below 1
inline void update_running(std::span<float> mean, std::span<float> variance, std::span<const channel_stats> batch,
                           std::optional<double> momentum, std::int64_t batches = 1, where at = where::here()) {
  expects(mean.size() == batch.size() && variance.size() == batch.size(),
          "running statistics need a float for each channel", at);
  expects(
      momentum ? *momentum >= 0 && *momentum <= 1 : batches >= 1,
      [&] {
        return momentum ? "momentum is " + std::to_string(*momentum) + "; it must be from 0 to 1"
                        : "an average over " + std::to_string(batches) + " batches; the first is number 1";
      },
      at);
  const double part = momentum ? *momentum : 1.0 / static_cast<double>(batches);
  for (std::size_t c = 0; c < batch.size(); ++c) {
    expects(
        batch[c].count != 1,
        [&] {
          return "channel " + std::to_string(c) + " has one element over all ranks; " +
                 "training needs more than one value per channel";
        },
        at);
    if (batch[c].count == 0) continue;
    const double unbiased = batch[c].m2 / static_cast<double>(batch[c].count - 1);
    mean[c] = static_cast<float>((1 - part) * static_cast<double>(mean[c]) + part * batch[c].mean);
    variance[c] = static_cast<float>((1 - part) * static_cast<double>(variance[c]) + part * unbiased);
  }
}

struct batch_norm_options {
  float eps = 1e-5f;
  bool relu = false;       ///< max with 0 after all else
  matrix_view added = {};  ///< a residual, added before relu; in the same layout
};

namespace detail {
struct channel_numbers {
  std::vector<float> mean, scale, shift, rstd;

  channel_numbers(std::span<const channel_stats> stats, const tensor_view& gamma, const tensor_view& beta, float eps) {
    const auto n = static_cast<std::int64_t>(stats.size());
    const Floats g(gamma, n, 1.f), b(beta, n, 0.f);
    for (std::size_t c = 0; c < stats.size(); ++c) {
      mean.push_back(static_cast<float>(stats[c].mean));
      rstd.push_back(static_cast<float>(1.0 / __builtin_sqrt(stats[c].variance() + static_cast<double>(eps))));
      scale.push_back(rstd.back() * g.data()[c]);
      shift.push_back(b.data()[c]);
    }
  }
};
inline void expects_channels(const channel_view& x, std::span<const channel_stats> stats, const tensor_view& gamma,
                             const tensor_view& beta, float eps, where at) {
  expects_channel_view(x, at);
  expects(
      static_cast<std::int64_t>(stats.size()) == x.channels,
      [&] { return std::to_string(stats.size()) + " statistics for " + std::to_string(x.channels) + " channels"; }, at);
  expects_vector(gamma, x.channels, "gamma", false, at);
  expects_vector(beta, x.channels, "beta", false, at);
  expects_eps(eps, at);
}
/// A matrix beside x that may be absent.
inline void expects_beside(const matrix_view& m, const channel_view& x, std::string_view what, bool written, where at) {
  if (m.data != nullptr) expects_matrix(m, x.lines.rows, x.lines.columns, what, written, at);
}
}  // namespace detail

/// y = (x - mean) / sqrt(variance + eps) * gamma + beta (+ added) (then relu), by channel.
/// In training `stats` are the merged statistics of all ranks; in evaluation {running mean, running variance, 1}.
/// shape   y and added as x; gamma, beta [channels] or absent
/// types   any formats, all free: x and y low with fp32 weights is the rule of O2
/// throws  amp::error for shapes that do not fit, a negative eps
/// source  Ioffe & Szegedy 2015 (arXiv:1502.03167), algorithm 1
template <exec::HostExecutor E>
void batch_norm(const E& executor, const matrix_view& y, const channel_view& x, std::span<const channel_stats> stats,
                const tensor_view& gamma = {}, const tensor_view& beta = {}, const batch_norm_options& options = {},
                where at = where::here()) {
  detail::expects_channels(x, stats, gamma, beta, options.eps, at);
  expects_matrix(y, x.lines.rows, x.lines.columns, "y", true, at);
  detail::expects_beside(options.added, x, "added", false, at);
  const detail::channel_numbers numbers(stats, gamma, beta, options.eps);
  const auto blocks = independent_blocks(x.lines.rows, x.lines.columns);
  run_items<channel_normalize>(executor, blocks.count(), x.lines.rows * x.lines.columns,
                               channel_normalize::args{x, y, options.added, numbers.mean.data(), numbers.scale.data(),
                                                       numbers.shift.data(), options.relu, blocks});
}

/// Sums of dy and of dy (x - mean) of one channel; ranks add theirs up element by element.
struct channel_gradient {
  double dy = 0, dy_x = 0;
};
/// This rank's sums. `y` is wanted if relu was on: dy counts as 0 where y is not positive.
/// throws  amp::error for shapes that do not fit
template <exec::HostExecutor E>
[[nodiscard]] std::vector<channel_gradient> batch_norm_sums(const E& executor, const matrix_view& dy,
                                                            const channel_view& x, std::span<const channel_stats> stats,
                                                            const matrix_view& y = {}, where at = where::here()) {
  detail::expects_channels(x, stats, {}, {}, 0.f, at);
  expects_matrix(dy, x.lines.rows, x.lines.columns, "dy", false, at);
  detail::expects_beside(y, x, "y", false, at);
  std::vector<channel_gradient> sums(stats.size());
  if (x.per_channel() == 0) return sums;
  const detail::channel_numbers numbers(stats, {}, {}, 0.f);
  const auto blocks = channel_blocks(x);
  const std::int64_t parts = x.channels_last ? blocks.count() : 1;
  std::vector<float> out(static_cast<std::size_t>(parts * 2 * x.channels));
  run_items<channel_gradient_sums>(executor, blocks.count(), x.lines.rows * x.lines.columns,
                                   channel_gradient_sums::args{x, dy, y, numbers.mean.data(), blocks, out.data()});
  for (std::int64_t b = 0; b < parts; ++b) {
    for (std::size_t c = 0; c < sums.size(); ++c) {
      const float* p = out.data() + static_cast<std::size_t>(b * 2 * x.channels) + c;
      sums[c].dy += static_cast<double>(p[0]);
      sums[c].dy_x += static_cast<double>(p[x.channels]);
    }
  }
  return sums;
}

struct batch_norm_gradients {
  matrix_view dx = {}, dadded = {};
  std::vector<float>*dgamma = nullptr, *dbeta = nullptr;  ///< of this rank: its own sums
};
/// dx = gamma rstd (dy - sum(dy) / n - (x - mean) rstd^2 sum(dy (x - mean)) / n), n and `total` over all ranks, `own`
/// of this rank.
/// shape   dx, dadded, dy and y as x; gamma [channels] or absent
/// throws  amp::error for shapes that do not fit, a negative eps
template <exec::HostExecutor E>
void batch_norm_backward(const E& executor, const batch_norm_gradients& grads, const matrix_view& dy,
                         const channel_view& x, std::span<const channel_stats> stats,
                         std::span<const channel_gradient> own, std::span<const channel_gradient> total,
                         const tensor_view& gamma = {}, const matrix_view& y = {}, float eps = 1e-5f,
                         where at = where::here()) {
  detail::expects_channels(x, stats, gamma, {}, eps, at);
  expects(own.size() == stats.size() && total.size() == stats.size(), "gradient sums are needed for each channel", at);
  expects_matrix(dy, x.lines.rows, x.lines.columns, "dy", false, at);
  expects_matrix(grads.dx, x.lines.rows, x.lines.columns, "dx", true, at);
  detail::expects_beside(grads.dadded, x, "dadded", true, at);
  detail::expects_beside(y, x, "y", false, at);
  const detail::channel_numbers numbers(stats, gamma, {}, eps);
  std::vector<float> mean_dy, slope;
  if (grads.dgamma != nullptr) grads.dgamma->clear();
  if (grads.dbeta != nullptr) grads.dbeta->clear();
  for (std::size_t c = 0; c < stats.size(); ++c) {
    const double n = stats[c].count > 0 ? static_cast<double>(stats[c].count) : 1,
                 rstd = static_cast<double>(numbers.rstd[c]);
    mean_dy.push_back(static_cast<float>(total[c].dy / n));
    slope.push_back(static_cast<float>(rstd * rstd * total[c].dy_x / n));
    if (grads.dgamma != nullptr) grads.dgamma->push_back(static_cast<float>(own[c].dy_x * rstd));
    if (grads.dbeta != nullptr) grads.dbeta->push_back(static_cast<float>(own[c].dy));
  }
  const auto blocks = independent_blocks(x.lines.rows, x.lines.columns);
  run_items<channel_gradients>(executor, blocks.count(), x.lines.rows * x.lines.columns,
                               channel_gradients::args{x, grads.dx, grads.dadded, dy, y, numbers.mean.data(),
                                                       mean_dy.data(), slope.data(), numbers.scale.data(), blocks});
}

}  // namespace amp::nn
