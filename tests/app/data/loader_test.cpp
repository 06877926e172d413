#include "data/loader.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "app/data/support.hpp"
#include "config/errors.hpp"
#include "data/demo.hpp"
#include "data/video_writer.hpp"

namespace data = clipbert::data;
using clipbert::content_error;
using test_support::counted_frames;
using test_support::has;
using test_support::message_of;
using test_support::TempFolder;

namespace {

/// A demo set of 20 small training videos, with room to add bad ones.
struct Fixture {
  TempFolder folder;
  data::DemoData demo;
  std::shared_ptr<const data::Tokenizer> tokenizer;
  data::VideoSetOptions videos;
  data::RetrievalOptions retrieval;
  std::vector<std::string> warnings;
  std::mutex mutex;

  Fixture() {
    data::DemoOptions options;
    options.videos = 20, options.gallery = 2, options.val = 2;
    demo = data::make_demo_data(folder.path() / "demo", options);
    tokenizer = std::make_shared<data::Tokenizer>(data::Vocabulary(demo.vocabulary_folder / "vocab.txt"));
    videos.clips.n_clips = 2, videos.clips.num_frm = 1, videos.clips.fps = 8, videos.clips.max_img_size = 32;
    videos.warn = [this](const std::string& line) {
      const std::scoped_lock lock(mutex);
      warnings.push_back(line);
    };
    retrieval.itm_neg_size = 3, retrieval.itm_hard_neg = 1, retrieval.max_n_example_per_group = 1,
    retrieval.max_txt_len = 8;
  }
  std::shared_ptr<const data::RetrievalSet> set(const std::filesystem::path& captions) const {
    return std::make_shared<data::RetrievalSet>(data::read_good_captions(captions), data::ClipFolder(demo.videos),
                                                tokenizer, videos, retrieval);
  }
  std::shared_ptr<const data::RetrievalSet> set() const { return set(demo.train); }
  std::filesystem::path captions(const std::vector<std::pair<std::string, std::string>>& records) const {
    std::string text;
    for (const auto& [clip, caption] : records)
      text += R"({"clip_name": ")" + clip + R"(", "caption": ")" + caption + "\"}\n";
    return folder.write("own.jsonl", text);
  }
};

bool equal(const data::Batch& a, const data::Batch& b) {
  return a.frames == b.frames && a.ids == b.ids && a.mask == b.mask && a.labels == b.labels &&
         a.n_examples == b.n_examples && a.video_names == b.video_names && a.caption_ids == b.caption_ids;
}

std::vector<data::Batch> take(data::Loader& loader, int count) {
  std::vector<data::Batch> batches;
  for (int i = 0; i < count; ++i) batches.push_back(loader.next().value());
  return batches;
}

}  // namespace

TEST_SUITE("data/loader") {
  TEST_CASE("a batch has the shapes it states, positives first") {
    const Fixture fixture;
    data::Loader loader(fixture.set(), {.batch_size = 4, .workers = 0});
    CHECK(loader.batches_per_epoch() == 5);
    const data::Batch batch = loader.next().value();
    CHECK((batch.videos == 4 && batch.clips == 2 && batch.frames_per_clip == 1 && batch.height == 32 &&
           batch.width == 32));
    CHECK(batch.frames.size() == 4u * 2 * 3 * 32 * 32);
    CHECK((batch.texts == 16 && batch.length == 8));
    CHECK(batch.ids.size() == 16u * 8);
    CHECK(batch.mask.size() == 16u * 8);
    CHECK(batch.n_examples == std::vector<std::int64_t>{4, 4, 4, 4});
    for (std::size_t i = 0; i < batch.labels.size(); ++i) CHECK(batch.labels[i] == (i % 4 == 0 ? 1 : 0));
    const auto records = data::read_good_captions(fixture.demo.train).records;
    for (std::size_t video = 0; video < 4; ++video) {
      CHECK(records[static_cast<std::size_t>(batch.caption_ids[video * 4])].clip == batch.video_names[video]);
    }
  }

  TEST_CASE("any number of workers and any cache give equal bytes, over epochs") {
    Fixture fixture;
    std::vector<data::Batch> first;
    for (const std::size_t cache : {std::size_t{0}, std::size_t{1} << 23, std::size_t{1} << 30}) {
      fixture.videos.cache_bytes = cache;
      const auto set = fixture.set();
      for (const int workers : {0, 1, 4}) {
        CAPTURE(cache);
        CAPTURE(workers);
        data::Loader loader(set, {.batch_size = 3, .workers = workers});
        const auto batches = take(loader, 17);
        if (first.empty()) first = batches;
        for (std::size_t i = 0; i < batches.size(); ++i) CHECK(equal(batches[i], first[i]));
      }
      CHECK(set->videos().cached_bytes() <= cache);
      CHECK((set->videos().cached_bytes() > 0) == (cache == std::size_t{1} << 30));  // where all have room, or none
    }
    CHECK_FALSE(equal(first[0], first[7]));
  }

  TEST_CASE("an epoch shows each video once, in another order than the last one") {
    const Fixture fixture;
    data::Loader loader(fixture.set(), {.batch_size = 5, .workers = 2});
    std::vector<std::vector<std::string>> orders(2);
    for (auto& order : orders) {
      for (const data::Batch& batch : take(loader, 4))
        order.insert(order.end(), batch.video_names.begin(), batch.video_names.end());
      CHECK(std::set<std::string>(order.begin(), order.end()).size() == 20);
    }
    CHECK(orders[0] != orders[1]);
  }

  TEST_CASE("a loader set to a position goes on as one that never stopped") {
    const Fixture fixture;
    const auto set = fixture.set();
    data::Loader unbroken(set, {.batch_size = 3, .workers = 2});
    const auto batches = take(unbroken, 12);
    CHECK(unbroken.position() == 12);
    for (const std::int64_t start : {0, 5, 9}) {
      data::Loader resumed(set, {.batch_size = 3, .workers = 2});
      (void)resumed.next();
      resumed.seek(start);
      CHECK(resumed.position() == start);
      CHECK(equal(resumed.next().value(), batches[static_cast<std::size_t>(start)]));
      CHECK(equal(resumed.next().value(), batches[static_cast<std::size_t>(start) + 1]));
    }
  }

  TEST_CASE("a loader that is not endless ends after one epoch, its last batch short or left out") {
    Fixture fixture;
    const auto set = fixture.set();
    for (const bool drop : {false, true}) {
      for (const int workers : {0, 2}) {
        data::Loader loader(
            set, {.batch_size = 8, .workers = workers, .shuffle = false, .endless = false, .drop_last = drop});
        std::vector<std::int64_t> sizes;
        while (auto batch = loader.next()) sizes.push_back(batch->videos);
        CHECK(sizes == (drop ? std::vector<std::int64_t>{8, 8} : std::vector<std::int64_t>{8, 8, 4}));
        CHECK_FALSE(loader.next().has_value());
        loader.seek(0);
        CHECK(loader.next().value().video_names[0] == "train_0000");
      }
    }
    CHECK_THROWS_AS(data::Loader(set, {.batch_size = 21, .drop_last = true}), clipbert::usage_error);
    CHECK_THROWS_AS(data::Loader(set, {.batch_size = 0}), clipbert::usage_error);
  }

  TEST_CASE("a negative never belongs to the video nor reads like one of its captions") {
    Fixture fixture;
    fixture.retrieval.itm_neg_size = 4, fixture.retrieval.itm_hard_neg = 2;
    const auto file = fixture.captions({{"train_0000", "a red circle"},
                                        {"train_0000", "a big cross"},
                                        {"train_0001", "A RED circle"},
                                        {"train_0002", "a blue star"},
                                        {"train_0003", "a big cross"}});
    const auto set = fixture.set(file);
    const auto records = data::read_good_captions(file).records;
    const std::set<std::string> own = {"a red circle", "A RED circle", "a big cross"};
    data::Loader loader(set, {.batch_size = 5, .workers = 0});
    for (const data::Batch& batch : take(loader, 40)) {
      std::size_t at = 0;
      for (std::size_t video = 0; video < batch.n_examples.size(); ++video) {
        const auto& positive = records[static_cast<std::size_t>(batch.caption_ids[at])];
        for (std::int64_t i = 0; i < batch.n_examples[video]; ++i, ++at) {
          const auto& record = records[static_cast<std::size_t>(batch.caption_ids[at])];
          if (batch.labels[at] == 1) continue;
          CHECK(record.clip != batch.video_names[video]);
          if (positive.clip == "train_0000") CHECK_FALSE(own.contains(record.text));
          if (positive.clip == "train_0001") CHECK(record.text != "a red circle");
        }
      }
    }
    const auto hopeless = fixture.captions({{"train_0000", "a red circle"}, {"train_0001", "a RED circle"}});
    CHECK(has(message_of<content_error>([&] { (void)fixture.set(hopeless); }), "no negative"));
  }

  TEST_CASE("hard negatives share more words with the positive than others do") {
    Fixture fixture;
    fixture.retrieval.itm_neg_size = 2, fixture.retrieval.itm_hard_neg = 1;
    data::Loader loader(fixture.set(), {.batch_size = 20, .workers = 0});
    const auto shared = [](const data::Batch& batch, std::size_t a, std::size_t b) {
      const auto words = [&](std::size_t text) {
        const auto begin = batch.ids.begin() + static_cast<std::ptrdiff_t>(text) * batch.length;
        return std::set<std::int64_t>(begin + 2, begin + 5);  // size, colour, shape
      };
      int count = 0;
      for (const std::int64_t word : words(a)) count += words(b).contains(word) ? 1 : 0;
      return count;
    };
    int hard = 0, easy = 0;
    for (const data::Batch& batch : take(loader, 10)) {
      for (std::size_t at = 0; at < batch.labels.size(); at += 3) {
        hard += shared(batch, at, at + 1);
        easy += shared(batch, at, at + 2);
      }
    }
    CHECK(hard > easy * 3 / 2);
  }

  TEST_CASE("captions of one video share a group, filled up by repeating in training only") {
    Fixture fixture;
    fixture.retrieval.itm_neg_size = 1, fixture.retrieval.max_n_example_per_group = 2;
    const auto file =
        fixture.captions({{"train_0000", "a"}, {"train_0001", "b"}, {"train_0000", "c"}, {"train_0000", "d"}});
    const auto training = fixture.set(file);
    CHECK(training->size() == 3);
    CHECK(training->examples() == 6);
    data::Loader loader(training, {.batch_size = 3, .workers = 0, .shuffle = false});
    const data::Batch batch = loader.next().value();
    CHECK(batch.n_examples == std::vector<std::int64_t>{4, 4, 4});
    CHECK(batch.labels == std::vector<std::int64_t>{1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0});
    CHECK(batch.caption_ids[0] == 0);
    CHECK(batch.caption_ids[2] == 2);
    CHECK(batch.caption_ids[8] == batch.caption_ids[10]);
    fixture.retrieval.training = false;
    CHECK(fixture.set(file)->size() == 4);
    fixture.retrieval.data_ratio = 0.5;
    CHECK(fixture.set(fixture.demo.train)->size() == 10);
  }

  TEST_CASE("B89 a bad video is named once and replaced, the batch keeps its shape") {
    Fixture fixture;
    std::filesystem::remove(fixture.demo.videos / "train_0003.mp4");
    std::filesystem::resize_file(fixture.demo.videos / "train_0007.mp4", 0);
    data::write_h264(fixture.demo.videos / "train_0005.mp4", counted_frames(1));
    data::write_h264(fixture.demo.videos / "train_0006.mp4", counted_frames(2, 110, 20));
    fixture.videos.max_bad_videos = 0.2;
    std::vector<data::Batch> first;
    for (const int workers : {0, 3}) {
      fixture.warnings.clear();
      const auto set = fixture.set();
      data::Loader loader(set, {.batch_size = 4, .workers = workers});
      const auto batches = take(loader, 10);
      std::set<std::string> seen;
      for (const data::Batch& batch : batches) {
        CHECK(batch.videos == 4);
        CHECK(batch.texts == 16);
        CHECK(batch.frames.size() == 4u * 2 * 3 * 32 * 32);
        seen.insert(batch.video_names.begin(), batch.video_names.end());
      }
      for (const char* bad : {"train_0003", "train_0006", "train_0007"}) CHECK_FALSE(seen.contains(bad));
      CHECK(seen.contains("train_0005"));
      REQUIRE(set->videos().bad().size() == 3);
      CHECK(has(set->videos().bad()[0].reason, "no such file"));
      CHECK(has(set->videos().bad()[1].reason, "aspect"));
      CHECK(has(set->videos().bad()[2].reason, "empty"));
      CHECK(fixture.warnings.size() == 3);
      if (first.empty()) first = batches;
      for (std::size_t i = 0; i < batches.size(); ++i) CHECK(equal(batches[i], first[i]));
    }
  }

  TEST_CASE("B89 more bad videos than max_bad_videos end the run with their names") {
    Fixture fixture;
    for (const char* name : {"train_0002.mp4", "train_0004.mp4"})
      std::filesystem::resize_file(fixture.demo.videos / name, 0);
    fixture.videos.max_bad_videos = 0.05;
    for (const int workers : {0, 2}) {
      data::Loader loader(fixture.set(), {.batch_size = 4, .workers = workers});
      const std::string message = message_of<content_error>([&] { (void)take(loader, 5); });
      for (const char* part : {"2 of 20 videos", "train_0002", "train_0004", "empty"}) CHECK(has(message, part));
    }
    std::filesystem::remove_all(fixture.demo.videos);
    std::filesystem::create_directories(fixture.demo.videos);
    const std::string missing = message_of<content_error>([&] { (void)fixture.set(); });
    for (const char* part : {"20 of 20 videos", "max_bad_videos 0.05;", "train_0003"}) CHECK(has(missing, part));
  }

  TEST_CASE("a set for evaluation gives the same clips each time and takes a lone clip from the middle") {
    Fixture fixture;
    data::VideoSetOptions options = fixture.videos;
    options.clips.n_clips = 4, options.clips.strategy = data::Strategy::rand;
    options.clips = data::for_evaluation(options.clips);
    const data::VideoSet set({"gallery_0000", "gallery_0001"}, data::ClipFolder(fixture.demo.gallery_videos), options);
    const auto frames = set.frames(1);
    CHECK(frames.size() == 4u * 3 * 32 * 32);
    CHECK(frames == set.frames(1));
    data::ClipOptions lone;
    lone.strategy = data::Strategy::rand;
    CHECK(data::for_evaluation(lone).strategy == data::Strategy::middle);
    CHECK(data::for_evaluation(lone).by_strategy);
  }
}
