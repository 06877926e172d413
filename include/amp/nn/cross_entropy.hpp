/// Cross entropy of logits with label smoothing and a padding label: fp32 losses whatever the logits' format.
#pragma once
#include <amp/apply/exec.hpp>
#include <amp/core/config.hpp>
#include <amp/nn/rows.hpp>
#include <amp/nn/softmax.hpp>
#include <amp/simd/load.hpp>
#include <amp/simd/math.hpp>
#include <amp/tensor/matrix.hpp>
#include <cstdint>
#include <span>
#include <string>

namespace amp::nn {

struct cross_entropy_options {
  float smoothing = 0.f;              ///< e: the part of the target that is spread over all classes
  std::int64_t padding_label = -100;  ///< such rows give loss 0 and no gradient; PyTorch's ignore_index
};

struct cross_entropy_kernel {
  struct args {
    matrix_view logits;
    const std::int64_t* labels;
    cross_entropy_options options;
    float *loss, *log_sum;
    row_blocks blocks;
  };
  template <class V>
  AMP_INLINE static void run(const args& a, std::int64_t block) {
    RowReader<V> x(a.logits);
    const std::int64_t columns = a.logits.columns;
    for (std::int64_t r = a.blocks.begin(block); r < a.blocks.end(block); ++r) {
      const std::int64_t label = a.labels[r];
      if (label == a.options.padding_label) {
        a.loss[r] = a.log_sum[r] = 0.f;
        continue;
      }
      x.row(r);
      const float top = row_max<V>(x, columns);
      const float log_sum = simd::log(static_cast<float>(exp_sum<V>(x, columns, top)));
      const std::int64_t begin = label / segment * segment;
      const float target = x.at(begin, columns - begin < segment ? columns - begin : segment)[label - begin];
      a.log_sum[r] = top + log_sum;
      float loss = (1.f - a.options.smoothing) * ((top - target) + log_sum);
      if (a.options.smoothing != 0.f) {
        double below[1] = {};  // the sum of top - x
        for_each_segment(columns, [&](std::int64_t first, std::int64_t n) AMP_LAMBDA {
          const float* from = x.at(first, n);
          lane_sums<V>(
              n,
              [&](std::int64_t i, auto part, V(&out)[1])
                  AMP_LAMBDA { out[0] = V(top) - simd::load<V>(from + i, part); },
              below);
        });
        loss += a.options.smoothing * (static_cast<float>(below[0] / static_cast<double>(columns)) + log_sum);
      }
      a.loss[r] = loss;
    }
  }
};

/// dlogits = dloss (softmax(logits) - (1 - e) onehot - e / classes)
struct cross_entropy_backward_kernel {
  struct args {
    matrix_view dlogits, logits;
    const std::int64_t* labels;
    cross_entropy_options options;
    const float *dloss, *log_sum;
    row_blocks blocks;
  };
  template <class V>
  AMP_INLINE static void run(const args& a, std::int64_t block) {
    RowReader<V> x(a.logits);
    RowWriter<V> dx(a.dlogits);
    const std::int64_t columns = a.logits.columns;
    const float spread = a.options.smoothing / static_cast<float>(columns);
    for (std::int64_t r = a.blocks.begin(block); r < a.blocks.end(block); ++r) {
      const std::int64_t label = a.labels[r];
      const bool padding = label == a.options.padding_label;
      const float scale = a.dloss[r], log_sum = a.log_sum[r];
      x.row(r);
      dx.row(r);
      for_each_segment(columns, [&](std::int64_t begin, std::int64_t n) AMP_LAMBDA {
        const float* from = x.at(begin, n);
        float* to = dx.at(begin);
        // Read before it is written: dlogits may be the logits.
        const bool here = label >= begin && label < begin + n;
        const float target = here && !padding ? from[label - begin] : 0.f;
        for_each_vector<V>(n, [&](std::int64_t i, auto part) AMP_LAMBDA {
          const V p = simd::exp(simd::load<V>(from + i, part) - V(log_sum));
          simd::store(to + i, padding ? V(0.f) : V(scale) * (p - V(spread)), part);
        });
        if (here && !padding) {
          to[label - begin] = scale * (simd::exp(target - log_sum) - ((1.f - a.options.smoothing) + spread));
        }
        dx.commit(begin, n);
      });
    }
  }
};

namespace detail {
inline void expects_labels(const matrix_view& logits, std::span<const std::int64_t> labels,
                           const cross_entropy_options& options, where at) {
  expects_matrix(logits, logits.rows, logits.columns, "logits", false, at);
  expects(
      options.smoothing >= 0.f && options.smoothing <= 1.f,
      [&] { return "smoothing is " + std::to_string(options.smoothing) + "; it must be from 0 to 1"; }, at);
  expects(
      static_cast<std::int64_t>(labels.size()) == logits.rows,
      [&] { return std::to_string(labels.size()) + " labels for " + std::to_string(logits.rows) + " rows; one each"; },
      at);
  for (std::size_t r = 0; r < labels.size(); ++r) {
    expects((labels[r] >= 0 && labels[r] < logits.columns) || labels[r] == options.padding_label,
            [&] {
              return "label " + std::to_string(labels[r]) + " of row " + std::to_string(r) + " is not below the " +
                     std::to_string(logits.columns) + " classes, nor the padding label";
            },
            at);
  }
}
}  // namespace detail

/// Per row (1 - e) * -log p(label) + e * mean over classes of -log p; a row with the padding label gives 0.
/// shape   logits [rows, classes]; labels, loss, log_sum [rows]; log_sum is for the backward pass
/// types   logits in any format; fp32 inside and out
/// throws  amp::error for shapes that do not fit, a smoothing outside 0 to 1, and, naming its row, a label out of range
/// source  Szegedy et al. 2016 (arXiv:1512.00567), section 7; NVIDIA apex, xentropy
template <exec::HostExecutor E>
void cross_entropy(const E& executor, std::span<float> loss, std::span<float> log_sum, const matrix_view& logits,
                   std::span<const std::int64_t> labels, const cross_entropy_options& options = {},
                   where at = where::here()) {
  detail::expects_labels(logits, labels, options, at);
  expects(loss.size() == labels.size() && log_sum.size() == labels.size(), "loss and log_sum need a float for each row",
          at);
  const auto blocks = independent_blocks(logits.rows, logits.columns);
  run_items<cross_entropy_kernel>(
      executor, blocks.count(), logits.rows * logits.columns,
      cross_entropy_kernel::args{logits, labels.data(), options, loss.data(), log_sum.data(), blocks});
}

/// Gradients of the logits, from the gradient of each row's loss. dlogits may be the logits' own storage.
/// shape   dlogits, logits [rows, classes]; labels, dloss, log_sum [rows], log_sum as cross_entropy left it
/// types   dlogits and logits in any formats; fp32 inside, one rounding at the store
/// throws  amp::error as cross_entropy does
template <exec::HostExecutor E>
void cross_entropy_backward(const E& executor, const matrix_view& dlogits, std::span<const float> dloss,
                            const matrix_view& logits, std::span<const std::int64_t> labels,
                            std::span<const float> log_sum, const cross_entropy_options& options = {},
                            where at = where::here()) {
  detail::expects_labels(logits, labels, options, at);
  expects_matrix(dlogits, logits.rows, logits.columns, "dlogits", true, at);
  expects(dloss.size() == labels.size() && log_sum.size() == labels.size(),
          "dloss and log_sum need a float for each row", at);
  const auto blocks = independent_blocks(logits.rows, logits.columns);
  run_items<cross_entropy_backward_kernel>(executor, blocks.count(), logits.rows * logits.columns,
                                           cross_entropy_backward_kernel::args{dlogits, logits, labels.data(), options,
                                                                               dloss.data(), log_sum.data(), blocks});
}

}  // namespace amp::nn
