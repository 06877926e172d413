/// Retrieval metrics from scores of (video, caption) pairs, both directions.
#pragma once
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace clipbert::eval {

/// The probability that a pair matches.
struct Score {
  std::string video;
  std::int64_t text = 0;  ///< id of the caption
  float score = 0;        ///< unrounded: ranks are taken on it
};

/// The video that each caption belongs to, in the order of the caption file.
using TextToVideo = std::vector<std::pair<std::int64_t, std::string>>;

/// Recall in per cent and ranks from 1.
struct RankMetrics {
  double r1 = 0, r5 = 0, r10 = 0, medianR = 0, meanR = 0;
};

/// Of equal scores, the lower column first (the product's rule), or the right one before or behind all equals.
enum class Ties { lower_column, best, worst };

/// One direction: what is asked with, its ranks by each rule of ties, and the metrics of the product's rule.
struct Direction {
  RankMetrics metrics, best, worst;
  std::vector<std::int64_t> ranks, ranks_best, ranks_worst;
};

struct Retrieval {
  Direction text2video;
  Direction video2text;      ///< a video's truth is the last of its captions, as in the original
  Direction video2text_any;  ///< the best ranked of its captions
  std::size_t texts = 0, videos = 0;
};

/// A table of scores, row-major.
struct ScoreTable {
  std::size_t rows = 0, columns = 0;
  std::vector<float> scores;

  [[nodiscard]] std::span<const float> row(std::size_t r) const {
    return std::span(scores).subspan(r * columns, columns);
  }
};

/// The rank of column `truth` in `row`, from 1. A score that is NaN is behind all others.
[[nodiscard]] std::int64_t rank_of(std::span<const float> row, std::size_t truth, Ties ties = Ties::lower_column);

/// Recalls, median (of an even number: the middle of two) and mean of ranks.
/// throws  content_error if there is none
[[nodiscard]] RankMetrics summarise(std::span<const std::int64_t> ranks);

/// All metrics of records in the order of their production. A pair's first score counts; rows of text2video are the
/// texts in the order met, columns the videos in the order met for the first text. throws  content_error if a pair
/// lacks a score, or a text or its video is unknown
[[nodiscard]] Retrieval retrieval_metrics(std::span<const Score> records, const TextToVideo& text_to_video);

/// To 4 decimals, half to even on the value's float bits in double arithmetic, as Python's round() does.
[[nodiscard]] double rounded_score(float score);

/// {"text2video": {r1, r5, r10, medianR, meanR}, "video2text": ..., "video2text_any": ...} with counts and, where ties
/// could change a rank, the best and worst case.
[[nodiscard]] nlohmann::ordered_json to_json(const Retrieval& retrieval);

}  // namespace clipbert::eval
