// A run that is killed again and again, at any moment, writes included.
#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <set>
#include <thread>

#include "tiny.hpp"

namespace fs = std::filesystem;
using test_support::Folder;
using test_support::has;
using test_support::metrics_of;
using test_support::Program;
using test_support::read_text;
using test_support::tiny_folder;
using test_support::train_words;

namespace {

constexpr int kills = 50;

/// A step of a few milliseconds, and a state after each.
std::vector<std::string> words_of(const std::string& out, int steps) {
  return train_words(
      out, steps,
      {"--save_steps_ratio", "1e-9",     "--val_datasets", "[]", "--train_batch_size", "1", "--n_workers", "0",
       "--train_n_clips",    "1",        "--itm_neg_size", "1",  "--max_bad_videos",   "1", "--decay",     "constant",
       "--cnn_lr_decay",     "constant", "--seed",         "3"});
}

/// The step behind `words`, or -1.
long step_behind(const std::string& text, const std::string& words) {
  const auto at = text.rfind(words);
  return at == std::string::npos ? -1 : std::stol(text.substr(at + words.size()));
}

std::size_t whole_lines(const fs::path& file) {
  const auto text = read_text(file);
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

TEST_SUITE("cli/kill") {
  TEST_CASE(
      "B48 a run killed fifty times at random moments loses no step but the last, and ends as one never stopped") {
    const Folder& folder = tiny_folder();
    std::mt19937 random(11);
    const auto lines_file = folder / "killed" / "log" / "metrics.jsonl";
    std::size_t lines = 0;
    int killed = 0;
    for (int i = 0; i < kills; ++i) {
      Program run(words_of("killed", 100000), folder.path());
      const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      while (!run.ended() && whole_lines(lines_file) <= lines && std::chrono::steady_clock::now() < give_up)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
      run.signal(SIGKILL);
      const auto outcome = run.wait();
      REQUIRE_MESSAGE(outcome.code == 128 + SIGKILL, outcome.err);
      ++killed;
      CHECK_MESSAGE(!has(outcome.err, "damaged"), outcome.err);
      const long start =
          std::max(0L, step_behind(outcome.err, "resumed at step "));  // 0: killed before the first state
      CHECK(start + 1 >= static_cast<long>(lines));  // a line of metrics comes before the state of its step
      lines = whole_lines(lines_file);
    }
    CHECK(killed == kills);
    const int steps = static_cast<int>(lines) + 2;
    const auto last = folder.run(words_of("killed", steps));
    REQUIRE_MESSAGE(last.code == 0, last.err);
    REQUIRE(folder.run(words_of("unbroken", steps)).code == 0);
    const auto broken = metrics_of(folder / "killed"), whole = metrics_of(folder / "unbroken");
    REQUIRE(broken.size() == static_cast<std::size_t>(steps));
    REQUIRE(whole.size() == static_cast<std::size_t>(steps));
    for (std::size_t i = 0; i < whole.size(); ++i) {
      CHECK(broken[i].at("step") == i + 1);
      CHECK(broken[i].at("loss") == whole[i].at("loss"));
      CHECK(broken[i].at("grad_norm") == whole[i].at("grad_norm"));
    }
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder / "killed" / "restore")) {
      names.insert(entry.path().filename().string());  // no half-written file is left
    }
    CHECK(names == std::set<std::string>{"state_a.safetensors", "state_b.safetensors"});
  }
}
