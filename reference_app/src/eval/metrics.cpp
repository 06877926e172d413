#include "eval/metrics.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>
#include <unordered_map>

#include "config/errors.hpp"

namespace clipbert::eval {
namespace {

struct Table {
  ScoreTable by_text;
  std::vector<std::int64_t> texts;
  std::vector<std::string> videos;
};

/// Numbers the texts by first meeting and the videos by first meeting for the first text, then fills the table.
Table tabulate(std::span<const Score> records) {
  Table table;
  std::unordered_map<std::int64_t, std::size_t> row;
  std::unordered_map<std::string_view, std::size_t> column;
  for (const auto& record : records)
    if (row.emplace(record.text, table.texts.size()).second) table.texts.push_back(record.text);
  for (const auto& record : records)
    if (record.text == table.texts.front() && column.emplace(record.video, table.videos.size()).second)
      table.videos.push_back(record.video);

  auto& scores = table.by_text;
  scores.rows = table.texts.size();
  scores.columns = table.videos.size();
  scores.scores.assign(scores.rows * scores.columns, 0.0F);
  std::vector<bool> filled(scores.scores.size());
  std::size_t count = 0;
  for (const auto& record : records) {
    const auto found = column.find(record.video);
    if (found == column.end())
      throw content_error("video " + record.video + " has a score for caption " + std::to_string(record.text) +
                          " but none for caption " + std::to_string(table.texts.front()));
    const auto at = row.at(record.text) * scores.columns + found->second;
    if (filled[at]) continue;
    filled[at] = true;
    scores.scores[at] = record.score;
    ++count;
  }
  if (count != filled.size()) {
    const auto gap = static_cast<std::size_t>(std::ranges::find(filled, false) - filled.begin());
    throw content_error("video " + table.videos[gap % scores.columns] + " has no score for caption " +
                        std::to_string(table.texts[gap / scores.columns]));
  }
  return table;
}

ScoreTable transposed(const ScoreTable& table) {
  ScoreTable out{table.columns, table.rows, std::vector<float>(table.scores.size())};
  for (std::size_t r = 0; r < table.rows; ++r)
    for (std::size_t c = 0; c < table.columns; ++c)
      out.scores[c * table.rows + r] = table.scores[r * table.columns + c];
  return out;
}

/// Ranks each row by the best of its true columns.
Direction rank_rows(const ScoreTable& table, const std::vector<std::vector<std::size_t>>& truth) {
  Direction direction;
  const auto best_of = [&](std::size_t r, Ties ties) {
    std::int64_t best = static_cast<std::int64_t>(table.columns);
    for (const auto column : truth[r]) best = std::min(best, rank_of(table.row(r), column, ties));
    return best;
  };
  for (std::size_t r = 0; r < table.rows; ++r) {
    direction.ranks.push_back(best_of(r, Ties::lower_column));
    direction.ranks_best.push_back(best_of(r, Ties::best));
    direction.ranks_worst.push_back(best_of(r, Ties::worst));
  }
  direction.metrics = summarise(direction.ranks);
  direction.best = summarise(direction.ranks_best);
  direction.worst = summarise(direction.ranks_worst);
  return direction;
}

nlohmann::ordered_json to_json(const RankMetrics& m) {
  return {{"r1", m.r1}, {"r5", m.r5}, {"r10", m.r10}, {"medianR", m.medianR}, {"meanR", m.meanR}};
}

nlohmann::ordered_json to_json(const Direction& direction) {
  auto json = to_json(direction.metrics);
  json["queries"] = direction.ranks.size();
  if (direction.ranks_best != direction.ranks_worst) {
    json["ties_best"] = to_json(direction.best);
    json["ties_worst"] = to_json(direction.worst);
  }
  return json;
}

}  // namespace

std::int64_t rank_of(std::span<const float> row, std::size_t truth, Ties ties) {
  const auto ordered = [](float score) { return std::isnan(score) ? -INFINITY : score; };
  const float mine = ordered(row[truth]);
  std::int64_t ahead = 0, equal = 0, equal_before = 0;
  for (std::size_t c = 0; c < row.size(); ++c) {
    const float other = ordered(row[c]);
    ahead += other > mine;
    equal += other == mine;
    equal_before += other == mine && c < truth;
  }
  return 1 + ahead + (ties == Ties::lower_column ? equal_before : ties == Ties::worst ? equal - 1 : 0);
}

RankMetrics summarise(std::span<const std::int64_t> ranks) {
  if (ranks.empty()) throw content_error("there is nothing to rank: no scores");
  std::vector<std::int64_t> sorted(ranks.begin(), ranks.end());
  std::ranges::sort(sorted);
  const auto n = sorted.size();
  const auto recall = [&](std::int64_t k) {
    const auto hits = std::ranges::upper_bound(sorted, k) - sorted.begin();
    return static_cast<double>(100 * hits) / static_cast<double>(n);
  };
  RankMetrics metrics{.r1 = recall(1), .r5 = recall(5), .r10 = recall(10)};
  const auto middle = static_cast<double>(sorted[n / 2]);
  metrics.medianR = n % 2 == 1 ? middle : (static_cast<double>(sorted[n / 2 - 1]) + middle) / 2;
  metrics.meanR =
      static_cast<double>(std::accumulate(sorted.begin(), sorted.end(), std::int64_t{0})) / static_cast<double>(n);
  return metrics;
}

Retrieval retrieval_metrics(std::span<const Score> records, const TextToVideo& text_to_video) {
  if (records.empty()) throw content_error("there is nothing to rank: no scores");
  const auto table = tabulate(records);
  std::unordered_map<std::string_view, std::size_t> column;
  for (std::size_t c = 0; c < table.videos.size(); ++c) column.emplace(table.videos[c], c);
  std::unordered_map<std::int64_t, std::size_t> row;
  for (std::size_t r = 0; r < table.texts.size(); ++r) row.emplace(table.texts[r], r);

  std::vector<std::vector<std::size_t>> video_of(table.texts.size()), last_text(table.videos.size()),
      all_texts(table.videos.size());
  for (const auto& [text, video] : text_to_video) {
    const auto r = row.find(text);
    const auto c = column.find(video);
    if (r != row.end() && c == column.end())
      throw content_error("caption " + std::to_string(text) + " belongs to video " + video + ", which has no scores");
    if (c == column.end()) continue;  // neither was scored
    if (r == row.end())
      throw content_error("caption " + std::to_string(text) + " of video " + video + " has no scores");
    video_of[r->second] = {c->second};
    last_text[c->second] = {r->second};
    all_texts[c->second].push_back(r->second);
  }
  for (std::size_t r = 0; r < table.texts.size(); ++r)
    if (video_of[r].empty())
      throw content_error("caption " + std::to_string(table.texts[r]) + " has scores but no video");
  for (std::size_t c = 0; c < table.videos.size(); ++c)
    if (last_text[c].empty()) throw content_error("video " + table.videos[c] + " has scores but no caption");

  const auto by_video = transposed(table.by_text);
  return {.text2video = rank_rows(table.by_text, video_of),
          .video2text = rank_rows(by_video, last_text),
          .video2text_any = rank_rows(by_video, all_texts),
          .texts = table.texts.size(),
          .videos = table.videos.size()};
}

double rounded_score(float score) {
  // printf rounds the exact binary value, and half to even where it is exactly between: the rule of Python's round()
  if (!std::isfinite(score)) return score;
  std::array<char, 64> text{};
  const int length = std::snprintf(text.data(), text.size(), "%.4f", static_cast<double>(score));
  double value = 0;
  std::from_chars(text.data(), text.data() + length, value);
  return value;
}

nlohmann::ordered_json to_json(const Retrieval& retrieval) {
  return {{"text2video", to_json(retrieval.text2video)},
          {"video2text", to_json(retrieval.video2text)},
          {"video2text_any", to_json(retrieval.video2text_any)},
          {"texts", retrieval.texts},
          {"videos", retrieval.videos}};
}

}  // namespace clipbert::eval
