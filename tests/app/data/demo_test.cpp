#include "data/demo.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "app/data/support.hpp"
#include "config/errors.hpp"
#include "data/captions.hpp"
#include "data/tokenizer.hpp"

namespace data = clipbert::data;
namespace fs = std::filesystem;
using test_support::has;
using test_support::message_of;
using test_support::TempFolder;

namespace {

std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> result;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    result[fs::relative(entry.path(), folder).string()] = {std::istreambuf_iterator<char>(in), {}};
  }
  return result;
}

data::DemoOptions small() {
  data::DemoOptions options;
  options.videos = 6, options.gallery = 4, options.val = 2;
  return options;
}

/// Pixels far brighter than the background.
int lit(const data::Frame& frame) {
  int count = 0;
  for (std::size_t i = 0; i < frame.rgb.size(); i += 3)
    count += std::max({frame.rgb[i], frame.rgb[i + 1], frame.rgb[i + 2]}) > 110 ? 1 : 0;
  return count;
}

}  // namespace

TEST_SUITE("data/demo") {
  TEST_CASE("the same seed gives the same files with any number of threads, another seed others") {
    const TempFolder folder;
    auto options = small();
    options.threads = 1;
    (void)data::make_demo_data(folder.path() / "a", options);
    options.threads = 3;
    (void)data::make_demo_data(folder.path() / "b", options);
    options.seed = 43;
    (void)data::make_demo_data(folder.path() / "c", options);
    const auto a = contents(folder.path() / "a"), b = contents(folder.path() / "b"), c = contents(folder.path() / "c");
    CHECK(a == b);
    CHECK(a.at("videos/train_0000.mp4") != c.at("videos/train_0000.mp4"));
  }

  TEST_CASE("a run that was cut goes on from what is there, and a second run makes nothing") {
    const TempFolder folder;
    const fs::path whole = folder.path() / "whole", cut = folder.path() / "cut";
    (void)data::make_demo_data(whole, small());
    std::atomic<bool> stop{false};
    auto options = small();
    options.threads = 1;
    options.stop = &stop;
    options.progress = [&](int done, int all) {
      CHECK(all == 12);
      if (done == 5) stop = true;
    };
    CHECK(data::make_demo_data(cut, options).made == 5);
    CHECK(data::make_demo_data(cut, small()).made == 7);
    CHECK(contents(cut) == contents(whole));
    CHECK(data::make_demo_data(cut, small()).made == 0);
    auto other = small();
    other.seed = 1;
    CHECK(has(message_of<clipbert::usage_error>([&] { (void)data::make_demo_data(cut, other); }), "other options"));
  }

  TEST_CASE("captions cover every combination evenly, the gallery holds each once") {
    const TempFolder folder;
    data::DemoOptions options;
    options.videos = 32, options.gallery = 16, options.val = 3, options.shapes = 1;
    const auto demo = data::make_demo_data(folder.path(), options);
    std::map<std::string, int> counts;
    for (const auto& record : data::read_good_captions(demo.train).records) ++counts[record.text];
    CHECK(counts.size() == 16);
    for (const auto& [caption, count] : counts) CHECK(count == 2);
    std::set<std::string> gallery, clips;
    for (const auto& record : data::read_good_captions(demo.gallery).records)
      gallery.insert(record.text), clips.insert(record.clip);
    CHECK(gallery.size() == 16);
    CHECK(clips.size() == 16);
    const data::ClipFolder unseen(demo.gallery_videos), seen(demo.videos);
    for (const std::string& clip : clips) CHECK((unseen.find(clip).has_value() && !seen.find(clip).has_value()));
    options.gallery = 17;
    CHECK(has(message_of<clipbert::usage_error>([&] { (void)data::make_demo_data(folder.path() / "x", options); }),
              "16 captions"));
  }

  TEST_CASE("every caption is made of whole words of the vocabulary") {
    const TempFolder folder;
    auto options = small();
    options.gallery = 16, options.shapes = data::demo_shapes;
    const auto demo = data::make_demo_data(folder.path(), options);
    const data::Vocabulary vocabulary(demo.vocabulary_folder / "vocab.txt");
    CHECK(vocabulary.size() == demo.vocabulary_size);
    CHECK(vocabulary.warnings().empty());
    const data::Tokenizer tokenizer{vocabulary};
    for (int size = 0; size < data::demo_sizes; ++size) {
      for (int colour = 0; colour < data::demo_colours; ++colour) {
        for (int shape = 0; shape < data::demo_shapes; ++shape) {
          const auto ids = tokenizer.encode(data::DemoObject{size, colour, shape}.caption());
          CHECK(ids.size() == 6);
          CHECK(std::count(ids.begin(), ids.end(), vocabulary.special(data::Vocabulary::unk)) == 0);
        }
      }
    }
  }

  TEST_CASE("a decoded video shows its object for half of the time, in one piece round its end, and is small on disk") {
    const TempFolder folder;
    const auto demo = data::make_demo_data(folder.path(), small());
    for (const auto& name : data::ClipFolder(demo.videos).names()) {
      const fs::path file = demo.videos / name;
      CHECK(fs::file_size(file) < 30000);
      const data::DecodedVideo video = data::decode_all(file);
      REQUIRE(video.frames.size() == data::demo_frames);
      CHECK((video.info.width == data::demo_side && video.info.height == data::demo_side));
      CHECK(video.info.seconds(1) == doctest::Approx(1.0 / data::demo_fps));
      int shown = 0, changes = 0;
      for (std::size_t i = 0; i < video.frames.size(); ++i) {
        shown += lit(video.frames[i]) > 50 ? 1 : 0;
        if (i > 0) changes += (lit(video.frames[i]) > 50) != (lit(video.frames[i - 1]) > 50) ? 1 : 0;
      }
      CHECK(shown == data::demo_frames / 2);
      CHECK(changes <= 2);
    }
  }

  TEST_CASE("large objects cover several times as much as small ones, whatever the shape") {
    for (int shape = 0; shape < data::demo_shapes; ++shape) {
      int small_area = 0, large_area = 0;
      for (std::uint64_t seed = 0; seed < 4; ++seed) {
        for (const auto& frame : data::render_demo_video({0, 7, shape}, {seed}))
          small_area = std::max(small_area, lit(frame));
        int largest = 0;
        for (const auto& frame : data::render_demo_video({1, 7, shape}, {seed}))
          largest = std::max(largest, lit(frame));
        large_area = seed == 0 ? largest : std::min(large_area, largest);
      }
      CAPTURE(shape);
      CHECK(large_area > 2 * small_area);
    }
  }
}
