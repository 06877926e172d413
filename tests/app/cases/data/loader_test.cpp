#include "data/loader.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "app/cases/manifest.hpp"
#include "app/data/support.hpp"
#include "config/errors.hpp"

namespace data = clipbert::data;
using test_support::Case;

namespace {

/// All videos of the manifest in one folder, and what a data set must make of each.
struct Gathered {
  test_support::TempFolder folder;
  std::vector<data::Caption> records;
  std::set<std::string> refused, either;

  Gathered() {
    for (const char* kind : {"video", "real_video"}) {
      for (const Case& one : test_support::cases_of(kind)) add(one);
    }
  }
  void add(const Case& one) {
    // Numbered: names may differ in extension or case only.
    const auto number = static_cast<std::int64_t>(records.size());
    const std::string clip = std::to_string(number) + "_" + one.file.filename().string();
    std::filesystem::copy_file(one.file, folder.path() / clip);
    records.push_back({"caption " + std::to_string(number), clip, {}, number + 1});
    const auto& expected = one.expected();
    const bool may_fail = one.allows("error") || !expected["needs_codec"].is_null();
    if (!expected["dataset_refuses"].is_null() || one.entry["outcome"] == "error") {
      refused.insert(clip);
    } else if (may_fail) {
      either.insert(clip);
    }
  }
};

}  // namespace

TEST_SUITE("cases/loader") {
  TEST_CASE(
      "B89 a training set of all the manifest's videos names those that cannot be used and keeps its batches' shape") {
    const Gathered gathered;
    if (gathered.records.size() < 2) return;
    const std::string words =
        "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ncaption\n0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n##0\n##1\n##2\n##3\n"
        "##4\n##5\n##6\n##7\n##8\n##9\n";
    const auto tokenizer =
        std::make_shared<data::Tokenizer>(data::Vocabulary(gathered.folder.write("vocab.txt", words)));
    data::CaptionFile captions;
    captions.records = gathered.records;
    data::VideoSetOptions videos;
    videos.clips.n_clips = 2, videos.clips.num_frm = 2, videos.clips.max_img_size = 32;
    videos.max_bad_videos = 1, videos.cache_bytes = 0;
    data::RetrievalOptions retrieval;
    retrieval.max_n_example_per_group = 1;
    std::vector<std::vector<data::Batch>> runs;
    for (const int workers : {0, 3}) {
      const auto set = std::make_shared<data::RetrievalSet>(captions, data::ClipFolder(gathered.folder.path()),
                                                            tokenizer, videos, retrieval);
      data::Loader loader(set, {.batch_size = 4, .workers = workers, .endless = false});
      auto& batches = runs.emplace_back();
      while (auto batch = loader.next()) batches.push_back(std::move(*batch));
      for (const data::Batch& batch : batches) {
        CHECK((batch.videos == 4 || &batch == &batches.back()));
        CHECK(batch.texts == 2 * batch.videos);
        CHECK(batch.frames.size() == static_cast<std::size_t>(batch.videos) * 2 * 2 * 3 * 32 * 32);
        for (const std::string& name : batch.video_names) CHECK_FALSE(gathered.refused.contains(name));
      }
      std::set<std::string> bad;
      for (const auto& note : set->videos().bad()) {
        CAPTURE(note.clip);
        CHECK(note.reason.find(note.clip) != std::string::npos);
        CHECK((gathered.refused.contains(note.clip) || gathered.either.contains(note.clip)));
        bad.insert(note.clip);
      }
      for (const std::string& clip : gathered.refused) CHECK(bad.contains(clip));
    }
    REQUIRE(runs[0].size() == runs[1].size());
    for (std::size_t i = 0; i < runs[0].size(); ++i) {
      CHECK(runs[0][i].frames == runs[1][i].frames);
      CHECK(runs[0][i].video_names == runs[1][i].video_names);
    }
  }
}
