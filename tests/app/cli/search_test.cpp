// Search over folders as people have them: damaged files, links, pipes, odd names; weights that are not what they say.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "tiny.hpp"

namespace fs = std::filesystem;
using test_support::Folder;
using test_support::has;
using test_support::last_line;
using test_support::one_line;
using test_support::Outcome;
using test_support::read_text;
using test_support::tiny_folder;
using test_support::tiny_run;
using test_support::train_words;

namespace {

Outcome search(const Folder& folder, const std::string& videos, const std::vector<std::string>& more = {},
               const std::string& query = "a red circle") {
  std::vector<std::string> words{"search", "--output_dir", "run", "--videos", videos};
  words.insert(words.end(), more.begin(), more.end());
  words.push_back(query);
  return folder.run(words);
}

/// A folder of videos with two good ones.
fs::path make_videos(const Folder& folder, const std::string& name) {
  fs::create_directories(folder / name);
  for (const char* file : {"gallery_0000.mp4", "gallery_0001.mp4"}) {
    fs::copy_file(folder / "data" / "gallery" / file, folder / name / file, fs::copy_options::overwrite_existing);
  }
  return folder / name;
}

}  // namespace

TEST_SUITE("cli/search") {
  TEST_CASE("a damaged video that still plays is searched and named, one that does not is named and skipped") {
    const Folder& folder = tiny_run();
    const auto videos = make_videos(folder, "hurt");
    std::string bytes = read_text(videos / "gallery_0000.mp4");
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(bytes.size() / 3), 64, '\x55');
    folder.write("hurt/overwritten.mp4", bytes);
    folder.write("hurt/cut.mp4", bytes.substr(0, bytes.size() / 2));  // its index stood at the end
    const auto table = search(folder, "hurt", {"--top_k", "10"});
    CHECK(table.code == 0);
    CHECK(has(table.err, "damaged overwritten.mp4: "));
    CHECK(has(table.err, "skipped cut.mp4: "));
    CHECK(has(table.out, "overwritten.mp4"));
    CHECK_FALSE(has(table.out, "cut.mp4"));
    CHECK_FALSE(has(table.err, "gallery_"));
    const auto json = nlohmann::json::parse(search(folder, "hurt", {"--json"}).out);
    REQUIRE(json.at("damaged").size() == 1);
    CHECK(json.at("damaged")[0].at("video") == "overwritten.mp4");
    CHECK(!json.at("damaged")[0].at("reason").get<std::string>().empty());
    CHECK(json.at("unreadable")[0].at("video") == "cut.mp4");
    CHECK(json.at("videos") == 3);
    const auto caption = [](const std::string& clip) {
      return R"({"caption": "a red circle", "clip_name": ")" + clip + "\"}\n";
    };
    folder.write("hurt.jsonl", caption("overwritten") + caption("gallery_0001"));
    const auto eval =
        folder.run({"eval", "--output_dir", "run", "--inference_txt_db", "hurt.jsonl", "--inference_img_db", "hurt"});
    CHECK(eval.code == 0);
    CHECK(has(eval.err, "overwritten is damaged"));
  }

  TEST_CASE("links, pipes and folders among the videos never stop a search, and what is passed over is named") {
    const Folder& folder = tiny_run();
    const auto videos = make_videos(folder, "links");
    fs::create_directories(videos / "subfolder");
    fs::create_symlink(folder / "data" / "gallery" / "gallery_0002.mp4", videos / "outside.mp4");
    fs::create_symlink("nowhere.mp4", videos / "dangling.mp4");
    fs::create_symlink("loop.mp4", videos / "loop.mp4");
    fs::create_symlink("gallery_0000.mp4", videos / "inside.mp4");
    REQUIRE(mkfifo((videos / "pipe.mp4").c_str(), 0600) == 0);
    folder.write("links/gallery_0000", "no video, and the stem of one");
    const auto outcome = search(folder, "links", {"--top_k", "10"});
    CHECK_MESSAGE(outcome.code == 0, outcome.err);
    for (const char* name : {"outside.mp4", "dangling.mp4", "loop.mp4", "pipe.mp4", "gallery_0000"}) {
      CAPTURE(name);
      CHECK(has(outcome.err, std::string("skipped ") + name + ": "));
    }
    CHECK_FALSE(has(outcome.err, "subfolder"));
    CHECK(has(outcome.out, "inside.mp4"));
    CHECK(has(outcome.out, "gallery_0001.mp4"));
  }

  TEST_CASE("a folder with nothing to read ends with code 3 and names all that it holds") {
    const Folder& folder = tiny_run();
    fs::create_directories(folder / "nothing");
    const auto empty = search(folder, "nothing");
    CHECK(empty.code == 3);
    CHECK(one_line(empty.err));
    folder.write("useless/a.mp4", "");
    folder.write("useless/b.mp4", "<html>");
    fs::create_symlink("nowhere", folder / "useless" / "c.mp4");
    const auto useless = search(folder, "useless");
    CHECK(useless.code == 3);
    CHECK(has(useless.err, "a.mp4"));
    CHECK(has(useless.err, "b.mp4"));
  }

  TEST_CASE("what can be known to be wrong is said before any video is opened") {
    const Folder& folder = tiny_run();
    for (const auto& [videos, flag, value] :
         std::vector<std::array<std::string, 3>>{{"no_such_folder", "--top_k", "1"},
                                                 {"c.json", "--top_k", "1"},
                                                 {"data/gallery", "--top_k", "0"},
                                                 {"data/gallery", "--top_k", "1e3"},
                                                 {"data/gallery", "--top_k", "99999999999999999999"},
                                                 {"data/gallery", "--inference_n_clips", "-7"},
                                                 {"data/gallery", "--inference_n_clips", "100000000"},
                                                 {"data/gallery", "--num_threads", "-2"},
                                                 {"data/gallery", "--html", "no_such_folder/page.html"},
                                                 {"data/gallery", "--html", "data"},
                                                 {"data/gallery", "--inference_model_step", "last"}}) {
      CAPTURE(flag + " " + value);
      const auto outcome = search(folder, videos, {flag, value});
      CHECK(outcome.code == 2);
      CHECK(outcome.out.empty());
      CHECK(one_line(outcome.err));
      CHECK((has(outcome.err, flag.substr(2)) || has(outcome.err, videos)));
    }
  }

  TEST_CASE("weights that are cut, of another model, not finite, or no regular file are refused with the reason") {
    const Folder& folder = tiny_run();
    REQUIRE(folder.run({"convert", "run/ckpt/model_step_4.pt", "w.safetensors"}).code == 0);
    const std::string weights = read_text(folder / "w.safetensors");
    folder.write("cut.safetensors", weights.substr(0, weights.size() - 1000));
    std::string bad = weights;
    const float nan = std::nanf("");
    std::memcpy(bad.data() + bad.size() - sizeof nan, &nan, sizeof nan);
    folder.write("nan.safetensors", bad);
    REQUIRE(mkfifo((folder / "pipe.safetensors").c_str(), 0600) == 0);
    auto config = nlohmann::json::parse(read_text(folder / "c.json"));
    config["model_config"]["hidden_size"] = 16;
    folder.write("other.json", config.dump());
    for (const auto& [file, settings, word] :
         std::vector<std::array<std::string, 3>>{{"cut.safetensors", "c.json", "cut"},
                                                 {"nan.safetensors", "c.json", "NaN"},
                                                 {"pipe.safetensors", "c.json", "regular file"},
                                                 {"data/vocab.txt", "c.json", "safetensors"},
                                                 {"run/ckpt/model_step_4.pt", "other.json", "shape"}}) {
      CAPTURE(file);
      const auto outcome = folder.run(
          {"search", "--checkpoint", file, "--config", settings, "--videos", "data/gallery", "a red circle"});
      CHECK(outcome.code == 3);
      CHECK(one_line(outcome.err));
      CHECK(has(outcome.err, file));
      CHECK(has(outcome.err, word));
    }
  }

  TEST_CASE("a query longer than max_txt_len is cut with a warning, an empty one is searched for") {
    const Folder& folder = tiny_run();
    const auto cut = search(folder, "data/gallery", {}, "a small red circle and a large blue triangle");
    CHECK(cut.code == 0);
    CHECK(has(cut.err, "max_txt_len 8"));
    CHECK(has(cut.err, "a small red circle and"));
    const auto empty = search(folder, "data/gallery", {}, "");
    CHECK(empty.code == 0);
    CHECK(empty.err.empty());
  }

  TEST_CASE("paths and names with blanks, accents and bytes that are no text serve like others") {
    const Folder& folder = tiny_run();
    const std::string videos = "Vidéos 測試 (100%)", out = "Läufe \xFF 1";
    make_videos(folder, videos);
    folder.write(videos + "/bad \xFE name.mp4", "no video");
    REQUIRE(folder.run(train_words(out, 1)).code == 0);
    const auto args = nlohmann::json::parse(read_text(folder / out / "log" / "args.json"));
    CHECK(args.at("max_train_steps") == 1);
    const auto outcome = folder.run(
        {"search", "--output_dir", out, "--videos", videos, "--html", out + "/page 1.html", "--json", "a red circle"});
    CHECK_MESSAGE(outcome.code == 0, outcome.err);
    CHECK(nlohmann::json::parse(outcome.out).at("videos") == 2);
    CHECK(has(outcome.err, "skipped bad \xFE name.mp4"));
    CHECK(fs::exists(folder / out / "page 1.html"));
  }

  TEST_CASE("a search over an index gives the bits of one over the videos, which may be gone") {
    const Folder& folder = tiny_run();
    const auto videos = make_videos(folder, "indexed");
    folder.write("indexed/broken.mp4", "no video");
    const auto made = folder.run({"index", "--output_dir", "run", "--videos", "indexed", "--out", "i.index"});
    REQUIRE_MESSAGE(made.code == 0, made.err);
    CHECK(has(made.err, "skipped broken.mp4: "));
    CHECK(has(made.out, "2 videos in i.index"));
    const auto direct = search(folder, "indexed", {"--json"});
    fs::remove_all(videos);
    const auto by_index = [&](std::vector<std::string> words) {
      words.insert(words.begin(), {"search", "--output_dir", "run", "--index", "i.index"});
      return folder.run(words);
    };
    const auto indexed = by_index({"--json", "a red circle"});
    REQUIRE_MESSAGE(indexed.code == 0, indexed.err);
    const auto a = nlohmann::json::parse(direct.out), b = nlohmann::json::parse(indexed.out);
    REQUIRE(b.at("queries")[0].at("hits").size() == 2);
    for (std::size_t i = 0; i < 2; ++i)
      for (const char* key : {"video", "score"})
        CHECK(a.at("queries")[0].at("hits")[i].at(key) == b.at("queries")[0].at("hits")[i].at(key));
    CHECK(b.at("unreadable")[0].at("video") == "broken.mp4");
    const auto page = by_index({"--html", "i.html", "a red circle"});
    CHECK(page.code == 0);
    CHECK(has(read_text(folder / "i.html"), "data:image/jpeg;base64,"));
    const auto more_clips = by_index({"--inference_n_clips", "1", "a red circle"});
    CHECK(more_clips.code == 2);
    CHECK(one_line(more_clips.err));
  }

  TEST_CASE("an index serves the weights that it was made with only, and is brought up to date by the same command") {
    const Folder& folder = tiny_run();
    const auto videos = make_videos(folder, "growing");
    const std::vector<std::string> make{"index",   "--output_dir", "run",    "--inference_model_step", "4", "--videos",
                                        "growing", "--out",        "g.index"};
    REQUIRE(folder.run(make).code == 0);
    fs::copy_file(folder / "data" / "gallery" / "gallery_0002.mp4", videos / "new.mp4");
    const auto again = folder.run(make);
    CHECK(again.code == 0);
    CHECK(has(again.out, "3 videos in g.index"));
    CHECK(has(again.out, "2 of them as they were"));
    const auto by_step = [&](const std::string& step) {
      return folder.run({"search", "--output_dir", "run", "--inference_model_step", step, "--index", "g.index",
                         "--json", "a red circle"});
    };
    const auto right = by_step("4"), wrong = by_step("2");
    REQUIRE_MESSAGE(right.code == 0, right.err);
    CHECK(nlohmann::json::parse(right.out).at("videos") == 3);
    CHECK(wrong.code == 3);
    CHECK(one_line(wrong.err));
    CHECK(has(wrong.err, "g.index: was made with other weights"));
    const std::string bytes = read_text(folder / "g.index");
    folder.write("cut.index", bytes.substr(0, bytes.size() - 9));
    const auto cut = folder.run({"search", "--output_dir", "run", "--index", "cut.index", "a red circle"});
    CHECK(cut.code == 3);
    CHECK(one_line(cut.err));
    CHECK(has(cut.err, "cut.index"));
  }
}
