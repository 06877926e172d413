#include "eval/metrics.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "config/errors.hpp"

using namespace clipbert::eval;

namespace {

/// Scores of every text against every video, in text order.
std::vector<Score> all_pairs(const std::vector<std::string>& videos, const std::vector<std::vector<float>>& by_text) {
  std::vector<Score> records;
  for (std::size_t t = 0; t < by_text.size(); ++t)
    for (std::size_t v = 0; v < videos.size(); ++v)
      records.push_back({videos[v], static_cast<std::int64_t>(t), by_text[t][v]});
  return records;
}

}  // namespace

TEST_SUITE("metrics/rank") {
  TEST_CASE("ties go to the lower column, independent of the truth, best and worst bound it") {
    const std::vector<float> row{0.5F, 0.9F, 0.5F, 0.5F, 0.1F};
    CHECK(rank_of(row, 0) == 2);
    CHECK(rank_of(row, 2) == 3);
    CHECK(rank_of(row, 3) == 4);
    CHECK(rank_of(row, 3, Ties::best) == 2);
    CHECK(rank_of(row, 0, Ties::worst) == 4);
    CHECK(rank_of(row, 1) == 1);
    CHECK(rank_of(row, 4) == 5);
  }

  TEST_CASE("a score that is NaN is behind every other") {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    CHECK(rank_of(std::vector<float>{nan, 0.1F, 0.2F}, 0) == 3);
    CHECK(rank_of(std::vector<float>{nan, 0.1F, nan}, 1) == 1);
  }

  TEST_CASE("recall, median and mean of ranks") {
    const auto m = summarise(std::vector<std::int64_t>{1, 7, 11, 2});
    CHECK(m.r1 == 25.0);
    CHECK(m.r5 == 50.0);
    CHECK(m.r10 == 75.0);
    CHECK(m.medianR == 4.5);
    CHECK(m.meanR == 5.25);
    CHECK(summarise(std::vector<std::int64_t>{9, 1, 3}).medianR == 3.0);
    CHECK_THROWS_AS(static_cast<void>(summarise({})), clipbert::content_error);
  }
}

TEST_SUITE("metrics/retrieval") {
  TEST_CASE("B73 with several captions per video both directions count as defined, and any takes the best caption") {
    // captions 0, 1 of a; 2, 3 of b; 4, 5 of c
    const auto records = all_pairs({"a", "b", "c"}, {{0.9F, 0.1F, 0.2F},
                                                     {0.3F, 0.8F, 0.1F},
                                                     {0.2F, 0.7F, 0.6F},
                                                     {0.4F, 0.5F, 0.3F},
                                                     {0.1F, 0.2F, 0.4F},
                                                     {0.6F, 0.3F, 0.5F}});
    const auto result = retrieval_metrics(records, {{0, "a"}, {1, "a"}, {2, "b"}, {3, "b"}, {4, "c"}, {5, "c"}});
    CHECK(result.texts == 6);
    CHECK(result.videos == 3);
    CHECK(result.text2video.ranks == std::vector<std::int64_t>{1, 2, 1, 1, 1, 2});
    CHECK(result.video2text.ranks == std::vector<std::int64_t>{4, 3, 2});      // of captions 1, 3, 5
    CHECK(result.video2text_any.ranks == std::vector<std::int64_t>{1, 2, 2});  // of captions 0, 2, 5
    const auto json = to_json(result);
    CHECK(json.at("text2video").at("queries") == 6);
    CHECK(json.at("video2text").at("queries") == 3);
    CHECK_FALSE(json.at("text2video").contains("ties_best"));
  }

  TEST_CASE("a repeated pair keeps its first score, and ties are reported with their bounds") {
    auto records = all_pairs({"a", "b"}, {{0.5F, 0.5F}, {0.4F, 0.5F}});
    records.push_back({"a", 0, 0.0F});
    const auto result = retrieval_metrics(records, {{0, "b"}, {1, "a"}});
    CHECK(result.text2video.ranks == std::vector<std::int64_t>{2, 2});
    CHECK(result.text2video.ranks_best == std::vector<std::int64_t>{1, 2});
    CHECK(result.text2video.ranks_worst == std::vector<std::int64_t>{2, 2});
    CHECK(to_json(result).at("text2video").at("ties_best").at("r1") == 50.0);
  }

  TEST_CASE("an incomplete table is refused with the pair that lacks a score") {
    auto records = all_pairs({"a", "b"}, {{0.5F, 0.5F}, {0.4F, 0.5F}});
    const TextToVideo truth{{0, "a"}, {1, "b"}};
    CHECK_THROWS_WITH_AS(static_cast<void>(retrieval_metrics(std::span(records).first(3), truth)),
                         "video b has no score for caption 1", clipbert::content_error);
    records.push_back({"c", 1, 0.1F});
    CHECK_THROWS_WITH_AS(static_cast<void>(retrieval_metrics(records, truth)),
                         "video c has a score for caption 1 but none for caption 0", clipbert::content_error);
    records.pop_back();
    CHECK_THROWS_WITH_AS(static_cast<void>(retrieval_metrics(records, {{0, "a"}, {1, "a"}})),
                         "video b has scores but no caption", clipbert::content_error);
    CHECK_THROWS_WITH_AS(static_cast<void>(retrieval_metrics(records, {{0, "a"}})), "caption 1 has scores but no video",
                         clipbert::content_error);
    CHECK_THROWS_WITH_AS(static_cast<void>(retrieval_metrics(records, {{0, "a"}, {1, "z"}})),
                         "caption 1 belongs to video z, which has no scores", clipbert::content_error);
    CHECK_THROWS_AS(static_cast<void>(retrieval_metrics({}, truth)), clipbert::content_error);
  }

  TEST_CASE("scores are rounded to four decimals by their exact binary value, half to even") {
    CHECK(rounded_score(0.15625F) == 0.1562);
    CHECK(rounded_score(0.90625F) == 0.9062);
    CHECK(rounded_score(0.03125F) == 0.0312);
    CHECK(rounded_score(0.00005F) == 0.0);  // the float below it
    CHECK(rounded_score(1.0F) == 1.0);
    CHECK(std::isnan(rounded_score(std::numeric_limits<float>::quiet_NaN())));
  }
}
