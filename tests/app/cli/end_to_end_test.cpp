// The whole way at a tiny size: data, training, breaks and resumption, scoring, search, comparison.
#include <doctest/doctest.h>
#include <signal.h>

#include <chrono>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "program.hpp"
#include "support/shared_data.hpp"

namespace fs = std::filesystem;
using nlohmann::json;
using test_support::Folder;
using test_support::has;
using test_support::one_line;
using test_support::Outcome;
using test_support::Program;
using test_support::read_text;

namespace {

constexpr int captions = 16;  // 2 sizes x 8 colours x 1 shape

/// Data and a small config, made once for all cases.
const Folder& workspace() {
  static const Folder folder;
  static const bool made = [] {
    const auto outcome = folder.run({"demo-data", "--output_dir", "data", "--videos", "160", "--gallery", "16", "--val",
                                     "16", "--shapes", "1", "--json"});
    REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
    folder.write("c.json", R"({
      "train_datasets": [{"name": "demo", "txt": "data/train.jsonl", "img": "data/videos"}],
      "val_datasets": [{"name": "demo", "txt": "data/val.jsonl", "img": "data/videos"}],
      "tokenizer_dir": "data", "max_txt_len": 8, "max_img_size": 64, "img_pixel_std": [60, 60, 60], "fps": 8, "num_frm": 1,
      "train_n_clips": 4, "inference_n_clips": 4, "score_agg_func": "lse", "max_n_example_per_group": 1, "itm_neg_size": 3,
      "n_workers": 1, "num_threads": 1,
      "cnn": {"depths": [1, 1, 1, 1], "stem_width": 8, "bottleneck_width": 8, "out_width": 32, "norm": "bn", "freeze_at": 0},
      "model_config": {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 128,
                       "vocab_size": 128, "max_position_embeddings": 16, "hidden_dropout_prob": 0.0,
                       "attention_probs_dropout_prob": 0.0, "initializer_range": 0.1},
      "train_batch_size": 16, "val_batch_size": 16, "learning_rate": 3e-3, "cnn_learning_rate": 6e-3, "grad_norm": 5.0,
      "num_valid": 2, "min_valid_steps": 1, "save_steps_ratio": 0.5, "fp16": 1, "seed": 7
    })");
    return true;
  }();
  CHECK(made);
  return folder;
}

std::vector<std::string> train_words(const std::string& out, int steps, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words{
      "train", "--config", "c.json", "--output_dir", out, "--max_train_steps", std::to_string(steps)};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::vector<json> metrics(const fs::path& run) {
  std::vector<json> lines;
  std::istringstream in(read_text(run / "log" / "metrics.jsonl"));
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  return lines;
}

std::size_t lines_of(const fs::path& file) {
  const auto text = read_text(file);
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

/// Sends a signal once the run has done `steps` steps. -> how it ended
Outcome break_at(const Folder& folder, const std::string& out, int steps, const std::vector<std::string>& words,
                 int signal) {
  Program program(words, folder.path());
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(240);
  while (!program.ended() && std::chrono::steady_clock::now() < give_up &&
         lines_of(folder / out / "log" / "metrics.jsonl") < static_cast<std::size_t>(steps)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  program.signal(signal);
  return program.wait();
}

/// The numbers that make up a run, without times.
json essence(const json& line) {
  json out;
  for (const char* key :
       {"step", "epoch", "loss", "loss_smoothed", "loss_scale", "skipped", "grad_norm", "lr_transformer", "lr_cnn"}) {
    out[key] = line.at(key);
  }
  return out;
}

/// Both runs have each step once, with the same numbers, and end in the same weights.
void check_equal_runs(const Folder& folder, const std::string& a, const std::string& b, int steps) {
  const auto left = metrics(folder / a), right = metrics(folder / b);
  REQUIRE(left.size() == static_cast<std::size_t>(steps));
  REQUIRE(right.size() == static_cast<std::size_t>(steps));
  for (std::size_t i = 0; i < left.size(); ++i) {
    CAPTURE(i);
    CHECK(left[i].at("step") == i + 1);
    CHECK(essence(left[i]) == essence(right[i]));
  }
  const std::string weights = "ckpt/model_step_" + std::to_string(steps) + ".pt";
  const auto bytes = read_text(folder / a / weights);
  CHECK(!bytes.empty());
  CHECK(bytes == read_text(folder / b / weights));
}

double mean_loss(const std::vector<json>& lines, std::size_t begin, std::size_t end) {
  double sum = 0;
  for (std::size_t i = begin; i < end; ++i) sum += lines[i].at("loss").get<double>();
  return sum / static_cast<double>(end - begin);
}

constexpr int long_steps = 320;

/// A run that has learned something, made once.
const Folder& trained() {
  const Folder& folder = workspace();
  static const bool made = [&] {
    const auto outcome = folder.run(train_words("run", long_steps));
    REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
    return true;
  }();
  CHECK(made);
  return folder;
}

json eval_json(const Folder& folder, const std::string& clips, const std::string& step = "best") {
  const auto outcome =
      folder.run({"eval", "--output_dir", "run", "--inference_model_step", step, "--inference_txt_db",
                  "data/gallery.jsonl", "--inference_img_db", "data/gallery", "--inference_n_clips", clips, "--json"});
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  return json::parse(outcome.out);
}

std::vector<json> gallery_records(const Folder& folder) {
  std::vector<json> records;
  std::istringstream in(read_text(folder / "data" / "gallery.jsonl"));
  for (std::string line; std::getline(in, line);) records.push_back(json::parse(line));
  return records;
}

}  // namespace

TEST_SUITE("cli/end_to_end") {
  TEST_CASE("demo data is written once, and a second call makes nothing") {
    const Folder& folder = workspace();
    CHECK(gallery_records(folder).size() == captions);
    const auto again = folder.run({"demo-data", "--output_dir", "data", "--videos", "160", "--gallery", "16", "--val",
                                   "16", "--shapes", "1", "--json"});
    CHECK(again.code == 0);
    CHECK(json::parse(again.out).at("made") == 0);
  }

  TEST_CASE("B96 a dry run prints every effective value and writes nothing") {
    const Folder& folder = workspace();
    const auto outcome = folder.run(train_words("dry", 10, {"--dry_run", "1"}));
    CHECK(outcome.code == 0);
    for (const char* word : {"learning_rate", "bf16", "parameters", "SCRATCH", "examples a step", "opt_level"}) {
      CAPTURE(word);
      CHECK(has(outcome.out, word));
    }
    CHECK_FALSE(fs::exists(folder / "dry"));
  }

  TEST_CASE("B69 the head of the log tells total batch, steps and rates, and two runs of a seed are equal") {
    const Folder& folder = workspace();
    for (const char* out : {"twin_a", "twin_b"}) REQUIRE(folder.run(train_words(out, 12)).code == 0);
    check_equal_runs(folder, "twin_a", "twin_b", 12);
    const auto text = read_text(folder / "twin_a" / "log" / "log.txt");
    for (const char* word :
         {"16 examples a step", "steps        12", "transformer_no_decay", "0.003", "0.006", "no CUDA", "O2, bf16"}) {
      CAPTURE(word);
      CHECK(has(text, word));
    }
    const auto args = json::parse(read_text(folder / "twin_a" / "log" / "args.json"));
    CHECK(args.at("opt_level") == "O2");
    CHECK(args.at("max_train_steps") == 12);
    CHECK(fs::exists(folder / "twin_a" / "log" / "model_config.json"));
  }

  TEST_CASE("training lowers the loss, and the best weights find videos better than chance") {
    const Folder& folder = trained();
    const auto lines = metrics(folder / "run");
    REQUIRE(lines.size() == long_steps);
    CHECK(mean_loss(lines, long_steps - 30, long_steps) < 0.8 * mean_loss(lines, 0, 30));
    const auto result = eval_json(folder, "4");
    for (const char* direction : {"text2video", "video2text"}) {  // by chance: 31 and 62 %
      CAPTURE(direction);
      CHECK(result.at(direction).at("r5").get<double>() >= 45);
      CHECK(result.at(direction).at("r10").get<double>() >= 80);
    }
    CHECK(fs::is_symlink(folder / "run" / "ckpt" / "best"));
    for (const char* name : {"results", "scores", "raw_args", "merged_args"}) {
      CAPTURE(name);
      bool found = false;
      for (const auto& entry : fs::recursive_directory_iterator(folder / "run" / "results_gallery")) {
        found = found || entry.path().filename() == std::string(name) + ".json";
      }
      CHECK(found);
    }
  }

  TEST_CASE("B48 a killed run that is resumed equals one that was never stopped, at O2") {
    const Folder& folder = workspace();
    const std::vector<std::string> more{"--save_steps_ratio", "0.1", "--dropout", "0.1"};  // a state every 6 steps
    REQUIRE(folder.run(train_words("whole", 60, more)).code == 0);
    const auto killed = break_at(folder, "killed", 21, train_words("killed", 60, more), SIGKILL);
    REQUIRE(killed.code == 128 + SIGKILL);
    const auto before = lines_of(folder / "killed" / "log" / "metrics.jsonl");
    CHECK(before >= 21);
    const auto resumed = folder.run(
        train_words("killed", 60, {"--save_steps_ratio", "0.1", "--dropout", "0.1", "--resume", "required"}));
    REQUIRE_MESSAGE(resumed.code == 0, resumed.err);
    CHECK(has(read_text(folder / "killed" / "log" / "log.txt"), "resumed at step"));
    check_equal_runs(folder, "whole", "killed", 60);
  }

  TEST_CASE("B48 SIGTERM ends with code 130 and the state of the last step, from which the run goes on, at O0") {
    const Folder& folder = workspace();
    const std::vector<std::string> more{"--opt_level", "O0", "--save_steps_ratio", "1", "--dropout", "0.1"};
    REQUIRE(folder.run(train_words("whole0", 40, more)).code == 0);
    const auto stopped = break_at(folder, "stopped0", 9, train_words("stopped0", 40, more), SIGTERM);
    CHECK(stopped.code == 130);
    const auto steps = metrics(folder / "stopped0").size();
    CHECK(steps >= 9);
    CHECK(steps < 40);
    const auto resumed = folder.run(train_words("stopped0", 40, more));
    REQUIRE_MESSAGE(resumed.code == 0, resumed.err);
    CHECK(has(resumed.err, "resumed at step " + std::to_string(steps)));
    check_equal_runs(folder, "whole0", "stopped0", 40);
  }

  TEST_CASE("B100 TensorBoard hears of each step of a resumed run once") {
    const Folder& folder = workspace();
    if (!fs::exists(folder / "killed")) return;  // the case above did not get that far
    std::size_t files = 0;
    for (const auto& entry : fs::directory_iterator(folder / "killed" / "log")) {
      files += entry.path().filename().string().starts_with("events.out.tfevents.") ? 1U : 0U;
    }
    CHECK(files == 2);  // the second one starts with a record that drops the first one's later steps
  }

  TEST_CASE("a finished run that is started again does nothing") {
    const Folder& folder = trained();
    const auto again = folder.run(train_words("run", long_steps));
    CHECK(again.code == 0);
    CHECK(has(again.err, "nothing to do"));
    CHECK(metrics(folder / "run").size() == long_steps);
  }

  TEST_CASE("B01 a run whose every gradient is not finite stops with code 4 and names the tensor") {
    const Folder& folder = workspace();
    const auto outcome =
        folder.run(train_words("nan", 30, {"--inject_nan_every", "1", "--max_consecutive_skips", "5"}));
    CHECK(outcome.code == 4);
    const auto last = outcome.err.substr(outcome.err.rfind("clipbert: "));
    CHECK(one_line(last));
    CHECK(has(last, "diverged"));
    CHECK((has(last, "transformer.") || has(last, "cnn.")));
    CHECK(metrics(folder / "nan").size() == 5);
  }

  TEST_CASE("eval and search give the same scores") {
    const Folder& folder = trained();
    const auto result = eval_json(folder, "4");
    const auto records = gallery_records(folder);
    std::map<std::pair<std::string, std::size_t>, double> scores;
    for (const auto& r : json::parse(read_text(folder / result.at("results").get<std::string>() / "results.json"))) {
      scores[{fs::path(r.at("vid_id").get<std::string>()).stem().string(), r.at("txt_id").get<std::size_t>()}] =
          r.at("score");
    }
    CHECK(scores.size() == static_cast<std::size_t>(captions) * captions);
    std::vector<std::string> words{"search", "--output_dir",        "run", "--videos", "data/gallery", "--top_k",
                                   "100",    "--inference_n_clips", "4",   "--json"};
    for (const auto& record : records) words.push_back(record.at("caption"));
    const auto outcome = folder.run(words);
    REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
    const auto answers = json::parse(outcome.out).at("queries");
    REQUIRE(answers.size() == records.size());
    for (std::size_t q = 0; q < answers.size(); ++q) {
      const auto& hits = answers[q].at("hits");
      CHECK(hits.size() == captions);
      double before = 1;
      for (const auto& hit : hits) {
        const auto stem = fs::path(hit.at("video").get<std::string>()).stem().string();
        CAPTURE(stem);
        CHECK(std::abs(hit.at("score").get<double>() - scores.at({stem, q})) < 1e-3);
        CHECK(hit.at("score").get<double>() <= before);
        before = hit.at("score");
      }
    }
  }

  TEST_CASE("search writes a page that needs no other file, and prints a table") {
    const Folder& folder = trained();
    const auto outcome = folder.run({"search", "--output_dir", "run", "--videos", "data/gallery", "--top_k", "3",
                                     "--html", "page.html", "a small <red> circle"});
    REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
    CHECK(has(outcome.out, "1. "));
    const auto page = read_text(folder / "page.html");
    CHECK(has(page, "data:image/jpeg;base64,/9j/"));
    CHECK(has(page, "a small &lt;red&gt; circle"));
    CHECK_FALSE(has(page, "http"));
  }

  TEST_CASE("search over files that are no videos names and skips them, and ends with 3 when none can be read") {
    const Folder& folder = trained();
    fs::create_directories(folder / "mixed");
    fs::create_directories(folder / "broken");
    const auto first = *fs::directory_iterator(folder / "data" / "gallery");
    fs::copy_file(first.path(), folder / "mixed" / "good.mp4", fs::copy_options::overwrite_existing);
    folder.write("mixed/page.mp4", "<html>no video</html>");
    folder.write("mixed/empty.mp4", "");
    folder.write("broken/empty.mp4", "");
    const auto mixed = folder.run({"search", "--output_dir", "run", "--videos", "mixed", "a red circle"});
    CHECK(mixed.code == 0);
    CHECK(has(mixed.out, "good.mp4"));
    CHECK(has(mixed.err, "page.mp4"));
    CHECK(has(mixed.err, "empty.mp4"));
    const auto broken = folder.run({"search", "--output_dir", "run", "--videos", "broken", "a red circle"});
    CHECK(broken.code == 3);
    CHECK(has(broken.err, "empty.mp4"));
  }

  TEST_CASE("search goes through a folder of real videos and names what it cannot read") {
    const auto cases = test_support::cases_folder();
    if (!test_support::have(cases / "manifest.json")) return;
    const auto manifest = json::parse(read_text(cases / "manifest.json"));
    const auto& list = manifest.is_array() ? manifest : manifest.at("cases");
    const Folder& folder = trained();
    std::map<fs::path, std::vector<json>> folders;
    for (const auto& entry : list) {
      if (entry.at("kind") == "real_video")
        folders[(cases / entry.at("file").get<std::string>()).parent_path()].push_back(entry);
    }
    for (const auto& [videos, entries] : folders) {
      const auto outcome = folder.run({"search", "--output_dir", "run", "--videos", fs::absolute(videos).string(),
                                       "--top_k", "100000", "--json", "a red circle"});
      CHECK_MESSAGE(outcome.code == 0, outcome.err);
      if (outcome.code != 0) continue;
      const auto answer = json::parse(outcome.out);
      std::set<std::string> found, skipped;
      for (const auto& hit : answer.at("queries").at(0).at("hits")) found.insert(hit.at("video").get<std::string>());
      for (const auto& video : answer.at("unreadable")) skipped.insert(video.at("video").get<std::string>());
      for (const auto& entry : entries) {
        const auto name = fs::path(entry.at("file").get<std::string>()).filename().string();
        CAPTURE(name);
        if (entry.contains("rename_to")) continue;
        CHECK(found.contains(name) != skipped.contains(name));
        if (entry.at("outcome") == "error") CHECK(skipped.contains(name));
        if (entry.at("outcome") != "error" && entry.at("outcome").is_string() &&
            entry.at("expected").value("dataset_refuses", json()).is_null()) {
          CHECK(found.contains(name));
        }
      }
    }
  }

  TEST_CASE("compare runs the levels from the same start and tells time and memory by kind") {
    const Folder& folder = workspace();
    const auto outcome = folder.run({"compare", "--config", "c.json", "--steps", "6", "--levels", "O0,O2", "--json"});
    REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
    const auto levels = json::parse(outcome.out).at("levels");
    const auto &full = levels.at("O0"), &mixed = levels.at("O2");
    for (const char* phase : {"total", "forward", "backward", "optimizer"}) {
      CAPTURE(phase);
      CHECK(full.at("seconds_per_step").at(phase).get<double>() > 0);
      CHECK(mixed.at("seconds_per_step").at(phase).get<double>() > 0);
    }
    CHECK(full.at("bytes").at("masters") == 0);
    CHECK(mixed.at("bytes").at("masters").get<double>() > 0);
    CHECK(mixed.at("bytes").at("weights").get<double>() < full.at("bytes").at("weights").get<double>());
    CHECK(mixed.at("bytes").at("gradients").get<double>() < full.at("bytes").at("gradients").get<double>());
    CHECK(mixed.at("bytes").at("activations").get<double>() < full.at("bytes").at("activations").get<double>());
    const double a = full.at("loss").at("first"), b = mixed.at("loss").at("first");
    CHECK(full.at("loss").at("curve").size() == 6);
    CHECK(std::abs(a - b) < 0.1 * std::abs(a));
    const auto table = folder.run({"compare", "--config", "c.json", "--steps", "2", "--levels", "O0"});
    CHECK(table.code == 0);
    CHECK(has(table.out, "optimizer_state"));
    const auto unknown = folder.run({"compare", "--config", "c.json", "--steps", "2", "--levels", "O7"});
    CHECK(unknown.code == 2);
    CHECK(one_line(unknown.err));
  }

  TEST_CASE("a step that was not saved is refused with those that were") {
    const Folder& folder = trained();
    const auto outcome = folder.run({"eval", "--output_dir", "run", "--inference_model_step", "7", "--inference_txt_db",
                                     "data/gallery.jsonl", "--inference_img_db", "data/gallery"});
    CHECK(outcome.code == 2);
    CHECK(one_line(outcome.err));
    CHECK(has(outcome.err, std::to_string(long_steps)));
  }
}
