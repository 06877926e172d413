#include "eval/retrieval.hpp"

#include <doctest/doctest.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "app/model/small_model.hpp"
#include "config/errors.hpp"
#include "model/loss.hpp"

using namespace clipbert;
using test_support::distance;
using test_support::small_model;

namespace {

/// Videos from a tensor (videos, clips, frames, 3, H, W); those in `bad` throw, those in `empty` hold no frames.
struct TensorGallery final : eval::GallerySource {
  at::Tensor videos;
  std::map<std::int64_t, std::string> bad;
  std::vector<std::int64_t> empty;

  explicit TensorGallery(at::Tensor all) : videos(std::move(all)) {}
  [[nodiscard]] std::int64_t size() const override { return videos.size(0); }
  [[nodiscard]] std::string name(std::int64_t i) const override { return "video" + std::to_string(i); }
  eval::VideoClips clips(std::int64_t i) override {
    if (bad.contains(i)) throw content_error(bad.at(i));
    if (std::ranges::count(empty, i) > 0) return {};
    const auto video = videos[i].contiguous();
    const auto* first = video.const_data_ptr<float>();
    return {video.size(0), video.size(1), video.size(3), video.size(4), {first, first + video.numel()}};
  }
};

TensorGallery gallery(std::int64_t videos = 5) {
  torch::manual_seed(21);
  return TensorGallery(at::randn({videos, 3, 2, 3, 64, 64}) * at::rand({videos, 1, 1, 3, 1, 1}) * 3);
}

eval::Captions captions() {
  torch::manual_seed(22);
  const auto mask = (at::arange(9).unsqueeze(0) < at::tensor({9, 4, 6, 5}, at::kLong).unsqueeze(1)).to(at::kLong);
  return {at::randint(1, 40, {4, 9}, at::kLong) * mask, mask, {3, 5, 8, 9}};
}

}  // namespace

TEST_SUITE("eval/retrieval") {
  TEST_CASE("the score of a pair is what the model says of this video and this caption alone") {
    for (const std::int64_t labels : {2, 1}) {
      const auto net = small_model("bn", labels);
      auto source = gallery();
      const auto texts = captions();
      for (const char* how : {"mean", "max", "lse"}) {
        const auto matrix = eval::score_all(*net, texts, eval::encode_gallery(*net, source), {.aggregation = how});
        REQUIRE(matrix.scores.sizes() == at::IntArrayRef({4, 5}));
        net->eval();
        for (std::int64_t t = 0; t < 4; ++t) {
          for (std::int64_t v = 0; v < 5; ++v) {
            const std::vector<std::int64_t> one{1};
            const auto logits = net->forward_clips(source.videos[v].flatten(0, 1).unsqueeze(0), 3,
                                                   texts.ids.narrow(0, t, 1), texts.mask.narrow(0, t, 1), one);
            CHECK(distance(matrix.scores[t][v], model::match_probability(logits, how)[0]) < 1e-5);
          }
        }
        net->train();
      }
    }
  }
  TEST_CASE("a score has the same bits whatever else is asked for, in fp32 and bf16") {
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      const auto net = small_model();
      net->cast(type);
      auto source = gallery();
      const auto texts = captions();
      const auto features = eval::encode_gallery(*net, source);
      const auto expected = eval::score_all(*net, texts, features).scores;
      CHECK(expected.std().item<double>() > 1e-3);
      for (std::int64_t video = 0; video < 5; ++video) {
        auto alone = source;
        alone.videos = source.videos.narrow(0, video, 1);
        const auto one = eval::encode_gallery(*net, alone);
        for (std::int64_t row = 0; row < 4; ++row) {
          const eval::Captions query{texts.ids.narrow(0, row, 1), texts.mask.narrow(0, row, 1), {0}};
          CHECK(eval::score_all(*net, query, one).scores[0][0].item<float>() == expected[row][video].item<float>());
        }
      }
    }
  }
  TEST_CASE("how many pairs are matched at a time changes scores by rounding only") {
    const auto net = small_model();
    auto source = gallery();
    const auto features = eval::encode_gallery(*net, source);
    const auto expected = eval::score_all(*net, captions(), features).scores;
    for (const std::int64_t pairs : {1, 3, 7})
      CHECK(distance(eval::score_all(*net, captions(), features, {.pairs = pairs}).scores, expected) < 1e-5);
  }
  TEST_CASE("a bf16 model is evaluated in its own precision") {
    const auto net = small_model(), low = small_model();
    low->cast(at::kBFloat16);
    auto source = gallery();
    const auto features = eval::encode_gallery(*low, source);
    CHECK((features.grids(0, 1).scalar_type() == at::kBFloat16));
    const auto scores = eval::score_all(*low, captions(), features).scores;
    CHECK((scores.scalar_type() == at::kFloat));
    CHECK(distance(scores, eval::score_all(*net, captions(), eval::encode_gallery(*net, source)).scores) < 0.05);
  }
  TEST_CASE("B89 a video that yields no frames is named with its reason, and the others keep their places") {
    const auto net = small_model();
    auto source = gallery();
    const auto whole = eval::score_all(*net, captions(), eval::encode_gallery(*net, source));
    source.empty = {1};
    source.bad = {{3, "moov atom not found"}};
    const auto features = eval::encode_gallery(*net, source);
    REQUIRE(features.unreadable().size() == 2);
    CHECK(features.unreadable()[0].name == "video1");
    CHECK(features.unreadable()[0].reason == "no frames were decoded");
    CHECK(features.unreadable()[1].reason == "moov atom not found");
    CHECK(features.names() == std::vector<std::string>{"video0", "video2", "video4"});
    CHECK(features.grids(0, 3).size(0) == 3);
    const auto matrix = eval::score_all(*net, captions(), features);
    CHECK(matrix.videos == std::vector<std::string>{"video0", "video2", "video4", "video1", "video3"});
    CHECK(distance(matrix.scores.narrow(1, 0, 3), whole.scores.index_select(1, at::tensor({0, 2, 4}, at::kLong))) <
          1e-5);
    CHECK(matrix.scores.narrow(1, 3, 2).eq(0).all().item<bool>());
  }
  TEST_CASE("a gallery without any readable video is refused with every reason") {
    const auto net = small_model();
    auto source = gallery(2);
    source.empty = {0, 1};
    CHECK_THROWS_WITH_AS(eval::encode_gallery(*net, source),
                         "none of the 2 videos can be read; video0: no frames were decoded; video1: no frames were "
                         "decoded",
                         content_error);
  }
  TEST_CASE("a query's hits are the best videos in order, equal scores keep the gallery's order") {
    const auto net = small_model();
    auto source = gallery(3);
    source.videos = at::cat({source.videos, source.videos});  // every score twice
    const auto features = eval::encode_gallery(*net, source);
    const auto matrix = eval::score_all(*net, captions(), features);
    const auto hits = eval::best_videos(matrix, 4);
    const auto& scores = matrix.scores;
    REQUIRE(hits.size() == 4);
    for (std::int64_t q = 0; q < 4; ++q) {
      const auto& row = hits[static_cast<std::size_t>(q)];
      REQUIRE(row.size() == 4);
      const auto best = scores[q].max().item<float>();
      CHECK(row[0].score == best);
      CHECK(std::ranges::is_sorted(row, std::greater<>(), &eval::Hit::score));
      CHECK(row[1].video == row[0].video + 3);
    }
    CHECK(eval::best_videos(matrix, 100)[0].size() == 6);
  }
  TEST_CASE("evaluation leaves the model in the mode it was in, and its statistics alone") {
    const auto net = small_model("bn");
    auto source = gallery(2);
    const auto before = net->named_tensors().at("cnn.feature.backbone.stem.conv1.norm.running_mean").clone();
    net->train();
    eval::score_all(*net, captions(), eval::encode_gallery(*net, source));
    CHECK(net->is_training());
    CHECK(at::equal(net->named_tensors().at("cnn.feature.backbone.stem.conv1.norm.running_mean"), before));
    net->eval();
    eval::encode_gallery(*net, source);
    CHECK_FALSE(net->is_training());
  }
  TEST_CASE("results list every pair, video after video, with scores rounded half to even at 4 decimals") {
    const eval::ScoreMatrix matrix{
        at::tensor({0.03125f, 0.123456f, 0.09375f, 1.f}).view({2, 2}), {7, 4}, {"a", "b"}, 2};
    std::string text;
    eval::write_results(matrix, [&](std::string_view piece) { text += piece; });
    CHECK(nlohmann::json::parse(text) == nlohmann::json::parse(R"([
      {"vid_id": "a", "txt_id": 7, "score": 0.0312}, {"vid_id": "a", "txt_id": 4, "score": 0.0938},
      {"vid_id": "b", "txt_id": 7, "score": 0.1235}, {"vid_id": "b", "txt_id": 4, "score": 1.0}])"));
  }
  TEST_CASE("metrics of a score matrix rank by its unrounded scores") {
    const eval::ScoreMatrix matrix{at::tensor({0.90001f, 0.90002f, 0.2f, 0.1f}).view({2, 2}), {7, 4}, {"a", "b"}, 2};
    const auto metrics = eval::retrieval_metrics(eval::records(matrix), {{7, "b"}, {4, "a"}});
    CHECK(metrics.text2video.metrics.r1 == 100);
    CHECK(metrics.video2text.ranks == std::vector<std::int64_t>{2, 1});
  }
}
