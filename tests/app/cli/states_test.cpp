// States and what a run starts from: of another run, of an older step, weights that lie in the run's own folder.
#include <doctest/doctest.h>
#include <signal.h>

#include <cstdlib>

#include "tiny.hpp"

namespace fs = std::filesystem;
using test_support::Folder;
using test_support::has;
using test_support::last_line;
using test_support::metrics_of;
using test_support::Program;
using test_support::read_text;
using test_support::tiny_folder;
using test_support::train_words;
using test_support::wait_for_steps;

namespace {

/// The state of a step in a run's folder, relative to the folder of all runs.
std::string state_of(const Folder& folder, const std::string& run, int step) {
  for (const auto& entry : fs::directory_iterator(folder / run / "restore")) {
    if (has(read_text(entry.path()), "\"step\":\"" + std::to_string(step) + "\""))
      return run + "/restore/" + entry.path().filename().string();
  }
  return {};
}

/// The file of a step's weights, whatever its form.
fs::path weights_of(const Folder& folder, const std::string& run, int step) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder / run / "ckpt", none)) {
    if (entry.path().stem() == "model_step_" + std::to_string(step)) return entry.path();
  }
  return {};
}

std::size_t count_in(const fs::path& folder) {
  std::size_t count = 0;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) count += entry.exists() ? 1U : 0U;
  return count;
}

}  // namespace

TEST_SUITE("cli/states") {
  TEST_CASE(
      "B48 ten steps and ten more in another folder equal twenty, data order, dropout and accumulation included") {
    const Folder& folder = tiny_folder();
    for (const auto& [name, level, type] :
         {std::tuple{"o0", "O0", "bf16"}, {"o2h", "O2", "fp16"}, {"o2b", "O2", "bf16"}}) {
      CAPTURE(name);
      const std::string whole = std::string("whole_") + name, rest = std::string("rest_") + name;
      const std::vector<std::string> more{"--opt_level",
                                          level,
                                          "--amp_dtype",
                                          type,
                                          "--save_steps_ratio",
                                          "0.5",
                                          "--dropout",
                                          "0.1",
                                          "--gradient_accumulation_steps",
                                          "2",
                                          "--train_batch_size",
                                          "2",
                                          "--val_datasets",
                                          "[]"};
      REQUIRE(folder.run(train_words(whole, 20, more)).code == 0);
      auto on = more;
      on.insert(on.end(), {"--resume", state_of(folder, whole, 10)});
      const auto outcome = folder.run(train_words(rest, 20, on));
      REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
      CHECK(has(outcome.err, "resumed at step 10"));
      const auto a = metrics_of(folder / whole), b = metrics_of(folder / rest);
      REQUIRE(a.size() == 20);
      REQUIRE(b.size() == 10);
      for (std::size_t i = 0; i < 10; ++i) {
        for (const char* key :
             {"step", "epoch", "loss", "loss_smoothed", "loss_scale", "skipped", "grad_norm", "lr_cnn"})
          CHECK_MESSAGE(a[i + 10].at(key) == b[i].at(key), key);
      }
      const auto left = read_text(weights_of(folder, whole, 20));
      CHECK(!left.empty());
      CHECK(left == read_text(weights_of(folder, rest, 20)));
      CHECK(read_text(folder / state_of(folder, whole, 20)) == read_text(folder / state_of(folder, rest, 20)));
    }
  }

  TEST_CASE("a state of another run starts a run of its own: what lay in the folder goes aside, nothing is mixed") {
    const Folder& folder = tiny_folder();
    REQUIRE(folder.run(train_words("mine", 6)).code == 0);
    REQUIRE(folder.run(train_words("theirs", 4, {"--seed", "5"})).code == 0);
    const auto outcome = folder.run(train_words("mine", 8, {"--seed", "5", "--resume", "theirs"}));
    REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
    CHECK(has(outcome.err, "resumed at step 4"));
    CHECK(has(outcome.err, "earlier_1"));
    CHECK_FALSE(has(outcome.err, "settings differ from those of the run that is resumed: seed"));
    const auto earlier = folder / "mine" / "earlier_1";
    CHECK(metrics_of(earlier).size() == 6);
    CHECK(count_in(earlier / "restore") == 2);
    const auto lines = metrics_of(folder / "mine");
    REQUIRE(lines.size() == 4);
    CHECK(lines.front().at("step") == 5);
    for (const int step : {3, 6}) CHECK(weights_of(folder, "mine", step).empty());  // of the run before
    CHECK_FALSE(weights_of(folder, "mine", 8).empty());
    CHECK(fs::exists(folder / "mine" / "ckpt" / "best"));
    CHECK(metrics_of(folder / "theirs").size() == 4);
    CHECK(count_in(folder / "theirs" / "restore") == 2);
  }

  TEST_CASE(
      "a run that starts anew may start from the best weights and the vocabulary of the run before in its folder") {
    const Folder& folder = tiny_folder();
    REQUIRE(folder.run(train_words("again", 4)).code == 0);
    const auto outcome = folder.run(train_words(
        "again", 2, {"--resume", "never", "--e2e_weights_path", "again/ckpt/best", "--tokenizer_dir", "again/log"}));
    REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
    CHECK(has(outcome.err, "tensors loaded"));
    CHECK_FALSE(has(outcome.err, "FROM SCRATCH"));
    CHECK(metrics_of(folder / "again").size() == 2);
    CHECK(metrics_of(folder / "again" / "earlier_1").size() == 4);
    CHECK(read_text(folder / "again" / "log" / "vocab.txt") == read_text(folder / "data" / "vocab.txt"));
  }

  TEST_CASE("a refused start moves no file: weights or a state of another model, a level that cannot take it") {
    const Folder& folder = tiny_folder();
    REQUIRE(folder.run(train_words("kept", 4)).code == 0);
    auto config = nlohmann::json::parse(read_text(folder / "c.json"));
    config["model_config"]["hidden_size"] = 16;
    folder.write("narrow.json", config.dump());
    REQUIRE(folder.run({"train", "--config", "narrow.json", "--output_dir", "narrow", "--max_train_steps", "2"}).code ==
            0);
    for (const auto& [flag, value] : {std::pair{"--e2e_weights_path", "narrow/ckpt/best"}, {"--resume", "narrow"}}) {
      CAPTURE(flag);
      std::vector<std::string> more{flag, value};
      if (std::string(flag) != "--resume") more.insert(more.end(), {"--resume", "never"});
      const auto outcome = folder.run(train_words("kept", 4, more));
      CHECK(outcome.code == 3);
      CHECK(has(last_line(outcome.err), "clipbert: "));
      CHECK_FALSE(fs::exists(folder / "kept" / "earlier_1"));
      CHECK(metrics_of(folder / "kept").size() == 4);
      CHECK(count_in(folder / "kept" / "restore") == 2);
    }
  }

  TEST_CASE("SIGINT ends with code 130 and the state of the last step") {
    const Folder& folder = tiny_folder();
    Program run(train_words("interrupt", 5000, {"--save_steps_ratio", "1"}), folder.path());
    wait_for_steps(run, folder / "interrupt", 3);
    run.signal(SIGINT);
    const auto outcome = run.wait();
    CHECK(outcome.code == 130);
    const auto steps = metrics_of(folder / "interrupt").size();
    CHECK_FALSE(state_of(folder, "interrupt", static_cast<int>(steps)).empty());
  }

  TEST_CASE("debug ends after three steps with a validation, and the schedule is that of the whole run") {
    const Folder& folder = tiny_folder();
    const auto outcome = folder.run(train_words("debug", 400, {"--debug", "1"}));
    CHECK_MESSAGE(outcome.code == 0, outcome.err);
    const auto lines = metrics_of(folder / "debug");
    REQUIRE(lines.size() == 3);
    CHECK(lines[2].at("lr_cnn").get<double>() == doctest::Approx(5e-5 * 3 / 40));  // a warm-up of 40 steps
    CHECK(has(outcome.err, "validation at step 3"));
    CHECK_FALSE(weights_of(folder, "debug", 3).empty());
  }

  TEST_CASE("a report is one page with the run's curves, validations, warnings and settings, and needs no other file") {
    const Folder& folder = tiny_folder();
    REQUIRE(folder.run(train_words("told", 4, {"--opt_level", "O1", "--fp16", "0"})).code == 0);
    const auto outcome = folder.run({"report", "--output_dir", "told"});
    REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
    const auto page = read_text(folder / "told" / "report.html");
    for (const char* part :
         {"<svg", "smoothed", "text2video_r1", "text2video recall", "opt_level", "O1", "spread of the gradients"})
      CHECK_MESSAGE(has(page, part), part);
    for (const char* part : {"http", "<script", "src="}) CHECK_FALSE(has(page, part));
    const auto none = folder.run({"report", "--output_dir", "nowhere"});
    CHECK(none.code == 2);
    CHECK(has(none.err, "nowhere"));
  }

  TEST_CASE("the other optimizers, masters, moments, scalers and clip by clip train from the program") {
    const Folder& folder = tiny_folder();
    for (const auto& more : std::vector<std::vector<std::string>>{
             {"--optim", "adam", "--master_weights", "remainder", "--optimizer_state", "bf16"},
             {"--optim", "adamax", "--amp_dtype", "fp16", "--scaler", "hysteresis", "--hysteresis", "2"},
             {"--master_weights", "kahan", "--optimizer_state", "fp8", "--clip_recompute", "1", "--profile", "1"},
             {"--fp8_recipe", "delayed", "--opt_level", "O1"},
             {"--freeze_cnn", "1", "--score_agg_func", "mean", "--loss_type", "rank", "--grad_norm", "-1"}}) {
      CAPTURE(more[1]);
      const auto outcome = folder.run(train_words("kind_" + more[1], 2, more));
      CHECK_MESSAGE(outcome.code == 0, outcome.err);
      CHECK(metrics_of(folder / ("kind_" + more[1])).size() == 2);
    }
  }
}
