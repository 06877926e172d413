#include "data/clip_folder.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "app/data/lmdb_writer.hpp"
#include "app/data/support.hpp"
#include "config/errors.hpp"
#include "data/captions.hpp"
#include "data/clips.hpp"
#include "data/random.hpp"
#include "data/video_writer.hpp"

namespace data = clipbert::data;
namespace fs = std::filesystem;
using clipbert::content_error;
using test_support::bytes_of;
using test_support::counted_frames;
using test_support::has;
using test_support::LmdbWriter;
using test_support::message_of;
using test_support::TempFolder;
using test_support::write_lmdb;

namespace {

/// What a clip of this name is, "none" if there is none.
std::string found(const data::ClipFolder& clips, const std::string& name) {
  const auto source = clips.find(name);
  if (!source) return "none";
  return fs::relative(source->name(), clips.folder()).string();
}

std::string text_of(const data::VideoSource& source) {
  return {reinterpret_cast<const char*>(source.bytes().data()), source.bytes().size()};
}

/// Videos of 3, 4, ... counted frames as files in `files` and as values in `lmdb`, which live under one folder.
struct TwoStores {
  TempFolder folder;
  fs::path files = folder.path() / "files", lmdb = folder.path() / "lmdb";
  std::vector<std::string> names;

  explicit TwoStores(int count = 3) {
    fs::create_directories(files);
    std::vector<std::pair<std::string, std::string>> entries;
    for (int i = 0; i < count; ++i) {
      names.push_back("video" + std::to_string(i));
      data::write_h264(files / (names.back() + ".mp4"), counted_frames(3 + i));
      entries.emplace_back(names.back(), bytes_of(files / (names.back() + ".mp4")));
    }
    write_lmdb(lmdb, entries);
  }
};

}  // namespace

TEST_SUITE("data/clip_folder") {
  TEST_CASE("a clip is the file of that name, else the only file of that stem") {
    const TempFolder folder;
    for (const char* name : {"a.mp4", "b", "b.mp4", "c.mp4", "c.webm", "d.e.mp4", ".hidden"}) folder.write(name, "x");
    const data::ClipFolder clips(folder.path());
    CHECK(found(clips, "a") == "a.mp4");
    CHECK(found(clips, "a.mp4") == "a.mp4");
    CHECK(found(clips, "b") == "b");
    CHECK(found(clips, "d.e") == "d.e.mp4");
    CHECK(found(clips, "d") == "none");
    CHECK(found(clips, "A") == "none");
    CHECK(has(message_of<content_error>([&] { (void)clips.find("c"); }), "several files: c.mp4, c.webm"));
    CHECK(clips.names() == std::vector<std::string>{"a.mp4", "b", "b.mp4", "c.mp4", "c.webm", "d.e.mp4"});
    CHECK_FALSE(clips.is_lmdb());
  }

  TEST_CASE("links in a circle and links to nothing are no clips") {
    const TempFolder folder;
    folder.write("a.mp4", "x");
    fs::create_symlink("b.mp4", folder.path() / "b.mp4");
    fs::create_symlink("nowhere", folder.path() / "c.mp4");
    const data::ClipFolder clips(folder.path());
    CHECK(clips.names().size() == 1);
    CHECK(!clips.find("b").has_value());
  }

  TEST_CASE("a name that leaves the folder is refused, as is a link that does") {
    const TempFolder folder, outside;
    const fs::path secret = outside.write("secret.mp4", "x");
    fs::create_symlink(secret, folder.path() / "link.mp4");
    folder.write("inside.mp4", "x");
    fs::create_symlink(folder.path() / "inside.mp4", folder.path() / "alias.mp4");
    const data::ClipFolder clips(folder.path());
    for (const std::string& name :
         {std::string("../x"), std::string("a/../../x"), secret.string(), std::string("link")}) {
      CAPTURE(name);
      CHECK(has(message_of<content_error>([&] { (void)clips.find(name); }), "refused"));
    }
    CHECK(clips.find("alias").has_value());
    CHECK(has(message_of<content_error>([&] { data::ClipFolder{folder.path() / "none"}; }), "no such folder"));
    fs::remove(folder.path() / "inside.mp4");
    CHECK(has(message_of<content_error>([&] { (void)clips.find("inside"); }), "is gone"));
  }

  TEST_CASE("an LMDB gives the clips that a folder of the same files gives") {
    const TwoStores stores;
    const data::ClipFolder folder(stores.files), lmdb(stores.lmdb);
    CHECK(lmdb.is_lmdb());
    CHECK(lmdb.names() == stores.names);
    data::VideoSetOptions options;
    options.clips.n_clips = 2, options.clips.num_frm = 2, options.clips.max_img_size = 32;
    const data::VideoSet from_files(stores.names, folder, options), from_lmdb(stores.names, lmdb, options);
    for (std::size_t i = 0; i < stores.names.size(); ++i) {
      CHECK(lmdb.find(stores.names[i])->name() == (stores.lmdb / stores.names[i]).string());
      CHECK(from_lmdb.frames(i) == from_files.frames(i));
      CHECK(data::decode_all(*lmdb.find(stores.names[i])).frames.size() == 3 + i);
    }
  }

  TEST_CASE("a key follows the rules of a file's name") {
    const TempFolder folder;
    write_lmdb(folder.path(),
               {{"a.mp4", "1"}, {"b", "2"}, {"b.mp4", "3"}, {"c.mp4", "4"}, {"c.webm", "5"}, {"d/e.mp4", "6"}});
    const data::ClipFolder clips(folder.path());
    CHECK(found(clips, "a") == "a.mp4");
    CHECK(found(clips, "b") == "b");
    CHECK(found(clips, "d/e") == "d/e.mp4");
    CHECK(found(clips, "e") == "none");
    CHECK(found(clips, "gone") == "none");
    CHECK(found(clips, "") == "none");
    CHECK(found(clips, std::string(2000, 'x')) == "none");
    CHECK(has(message_of<content_error>([&] { (void)clips.find("c"); }), "several keys: c.mp4, c.webm"));
    CHECK(has(message_of<content_error>([&] { (void)clips.find("../b"); }), "refused"));
    CHECK(text_of(*clips.find("b.mp4")) == "3");
  }

  TEST_CASE("a missing key, an empty value and a value that is no video are told by name") {
    const TwoStores stores;
    {
      LmdbWriter writer(stores.lmdb);
      writer.put("empty", ""), writer.put("page", "<html>"), writer.remove("video1");
      writer.commit();
    }
    const data::ClipFolder clips(stores.lmdb);
    std::vector<data::Caption> records;
    for (const char* clip : {"video0", "video1", "empty", "page"}) records.push_back({"a", clip, {}, 1});
    const data::ClipCheck check = data::check_clips(records, clips, 2);
    CHECK(check.playable == std::vector<std::string>{"video0"});
    REQUIRE(check.missing.size() == 1);
    CHECK((check.missing[0].clip == "video1" && has(check.missing[0].reason, "no such key")));
    REQUIRE(check.undecodable.size() == 2);
    CHECK(has(check.undecodable[0].reason, (stores.lmdb / "empty").string()));
    CHECK(has(check.undecodable[0].reason, "empty (0 bytes)"));
    CHECK(has(check.undecodable[1].reason, "not a video"));
  }

  TEST_CASE("eight threads read one LMDB as one does") {
    const TwoStores stores(8);
    const data::ClipFolder clips(stores.lmdb);
    std::vector<std::size_t> frames(8);
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < 8; ++i) {
        threads.emplace_back([&, i] {
          for (std::size_t round = 0; round < 8; ++round) {
            frames[i] += data::decode_all(*clips.find(stores.names[(i + round) % 8])).frames.size();
          }
        });
      }
    }
    CHECK(frames == std::vector<std::size_t>(8, 3 + 4 + 5 + 6 + 7 + 8 + 9 + 10));
  }

  TEST_CASE("a source outlives the folder object that it came from") {
    const TwoStores stores(1);
    const auto source = [&] { return *data::ClipFolder(stores.lmdb).find("video0"); }();
    CHECK(data::decode_all(source).frames.size() == 3);
  }

  TEST_CASE("an LMDB is read without a lock: beside a writer that has not ended, and where nothing may be written") {
    const TwoStores stores(1);
    {
      LmdbWriter writer(stores.lmdb);
      writer.put("later", "x");
      const data::ClipFolder during(stores.lmdb);
      CHECK(during.names() == stores.names);
      CHECK(during.find("video0").has_value());
    }
    fs::remove(stores.lmdb / "lock.mdb");
    fs::permissions(stores.lmdb / "data.mdb", fs::perms::owner_read);
    fs::permissions(stores.lmdb, fs::perms::owner_read | fs::perms::owner_exec);
    CHECK(data::decode_all(*data::ClipFolder(stores.lmdb).find("video0")).frames.size() == 3);
    CHECK_FALSE(fs::exists(stores.lmdb / "lock.mdb"));
    fs::permissions(stores.lmdb, fs::perms::owner_all);
  }

  TEST_CASE("an LMDB of thousands of entries is walked whole, an empty one holds nothing") {
    const TempFolder folder;
    std::vector<std::pair<std::string, std::string>> entries;
    std::vector<std::string> keys;
    for (int i = 0; i < 3000; ++i) {
      keys.push_back("video" + std::to_string(i));
      entries.emplace_back(keys.back(), std::string(static_cast<std::size_t>(i % 7 == 0 ? 9000 : i % 50), 'v'));
    }
    write_lmdb(folder.path() / "many", entries);
    const data::ClipFolder many(folder.path() / "many");
    std::sort(keys.begin(), keys.end());
    CHECK(many.names() == keys);
    for (const int i : {0, 1, 7, 1500, 2999}) {
      CHECK(text_of(*many.find("video" + std::to_string(i))) == entries[static_cast<std::size_t>(i)].second);
    }
    write_lmdb(folder.path() / "none", {});
    CHECK(data::ClipFolder(folder.path() / "none").names().empty());
  }

  TEST_CASE("a data base inside an LMDB is no clip, and one with several values a key is refused") {
    const TempFolder folder;
    {
      LmdbWriter writer(folder.path() / "named");
      writer.put("video", "x");
      writer.begin("inside", MDB_CREATE);
      writer.put("other", "y");
      writer.commit();
    }
    CHECK(data::ClipFolder(folder.path() / "named").names() == std::vector<std::string>{"video"});
    {
      LmdbWriter writer(folder.path() / "twice", MDB_DUPSORT);
      writer.put("video", "x"), writer.put("video", "y");
      writer.commit();
    }
    CHECK(has(message_of<content_error>([&] { data::ClipFolder{folder.path() / "twice"}; }), "data.mdb"));
  }

  TEST_CASE("a damaged LMDB is refused or read, never followed out of its pages") {
    const TempFolder folder;
    std::vector<std::pair<std::string, std::string>> entries;
    for (int i = 0; i < 300; ++i)
      entries.emplace_back("clip" + std::to_string(i), std::string(i % 3 == 0 ? 5000 : 30, 'v'));
    write_lmdb(folder.path() / "whole", entries);
    const std::string whole = bytes_of(folder.path() / "whole" / "data.mdb");
    const auto file = folder.path() / "hurt" / "data.mdb";
    fs::create_directories(file.parent_path());
    std::size_t refused = 0, sum = 0;
    const auto try_it = [&](const std::string& bytes) {
      folder.write("hurt/data.mdb", bytes);
      const std::string message = message_of<content_error>([&] {
        const data::ClipFolder clips(file.parent_path());
        for (const std::string& name : clips.names()) {
          if (data::leaves_folder(name)) continue;
          for (const std::byte byte : clips.find(name)->bytes()) sum += static_cast<std::size_t>(byte);
        }
      });
      if (message.empty()) return;
      ++refused;
      CHECK(has(message, (folder.path() / "hurt").string()));
      CHECK_FALSE(has(message, "\n"));
    };
    for (const std::size_t size : {std::size_t{1}, std::size_t{100}, std::size_t{4096}, std::size_t{5000},
                                   std::size_t{8192}, std::size_t{20000}, whole.size() / 2, whole.size() - 4096}) {
      const std::size_t before = refused;
      try_it(whole.substr(0, size));
      CHECK(refused == before + 1);
    }
    data::Random random{7};
    for (int round = 0; round < 400; ++round) {
      std::string hurt = whole;
      // Half the time in what holds the tree: heads of pages, where an offset or a number goes wrong.
      const std::size_t page = random.below(hurt.size() / 4096) * 4096;
      for (int i = 0; i < 3; ++i) {
        const std::size_t at = round % 2 == 0 ? page + random.below(64) : random.below(hurt.size());
        hurt[at] = static_cast<char>(random.below(256));
      }
      try_it(hurt);
    }
    CHECK(refused > 50);
    CHECK(sum > 0);
  }
}
