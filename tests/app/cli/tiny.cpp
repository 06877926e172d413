#include "tiny.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <sstream>
#include <thread>

namespace test_support {
namespace {

constexpr const char* config = R"({
  "train_datasets": [{"name": "demo", "txt": "data/train.jsonl", "img": "data/videos"}],
  "val_datasets": [{"name": "demo", "txt": "data/val.jsonl", "img": "data/videos"}],
  "tokenizer_dir": "data", "max_txt_len": 8, "max_img_size": 64, "img_pixel_std": [60, 60, 60], "fps": 8, "num_frm": 1,
  "train_n_clips": 2, "inference_n_clips": 2, "score_agg_func": "lse", "max_n_example_per_group": 1, "itm_neg_size": 2,
  "n_workers": 1, "num_threads": 1,
  "cnn": {"depths": [1, 1, 1, 1], "stem_width": 8, "bottleneck_width": 8, "out_width": 32, "norm": "bn", "freeze_at": 0},
  "model_config": {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64,
                   "vocab_size": 128, "max_position_embeddings": 16, "initializer_range": 0.1},
  "train_batch_size": 4, "val_batch_size": 4, "num_valid": 2, "min_valid_steps": 1, "save_steps_ratio": 0.5, "fp16": 1
})";

}  // namespace

std::vector<std::string> train_words(const std::string& out, int steps, const std::vector<std::string>& more) {
  std::vector<std::string> words{
      "train", "--config", "c.json", "--output_dir", out, "--max_train_steps", std::to_string(steps)};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

const Folder& tiny_folder() {
  static const Folder folder;
  static const bool made = [] {
    const auto outcome =
        folder.run({"demo-data", "--output_dir", "data", "--videos", "12", "--gallery", "6", "--val", "4"});
    REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
    folder.write("c.json", config);
    return true;
  }();
  CHECK(made);
  return folder;
}

const Folder& tiny_run() {
  const Folder& folder = tiny_folder();
  static const bool made = [&] {
    const auto outcome = folder.run(train_words("run", 4));
    REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
    return true;
  }();
  CHECK(made);
  return folder;
}

std::vector<nlohmann::json> metrics_of(const std::filesystem::path& run) {
  std::vector<nlohmann::json> lines;
  std::istringstream in(read_text(run / "log" / "metrics.jsonl"));
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

void wait_for_steps(Program& program, const std::filesystem::path& run, std::size_t steps) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(240);
  const auto done = [&] {
    const auto text = read_text(run / "log" / "metrics.jsonl");
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) >= steps;
  };
  while (!program.ended() && std::chrono::steady_clock::now() < give_up && !done()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

std::string last_line(const std::string& text) {
  const std::string body = text.substr(0, text.find_last_not_of('\n') + 1);
  const auto before = body.rfind('\n');
  return before == std::string::npos ? body : body.substr(before + 1);
}

}  // namespace test_support
