#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>

#include "cli/evaluate.hpp"
#include "cli/flags.hpp"
#include "cli/train_run.hpp"
#include "config/errors.hpp"

namespace clipbert::cli {
namespace {

/// What a config with do_inference asks of the run in output_dir, as flags.
Words inference_flags(config::Config c) {
  using config::Json;
  const std::vector<std::string> paths{"inference_txt_db", "inference_img_db"};
  config::check_paths(c, paths);
  Words flags;
  const Json all = config::to_json(c);
  for (const auto& [key, value] : all.items()) {
    const bool wanted = key.starts_with("inference_") || key == "output_dir" || key == "score_agg_func";
    if (!wanted || !config::is_given(c, key)) continue;
    flags.push_back("--" + key + "=" +
                    (value.is_string() ? value.get<std::string>()  // a path may hold bytes that are not UTF-8
                                       : value.dump(-1, ' ', false, Json::error_handler_t::replace)));
  }
  return flags;
}

}  // namespace

int train(const Words& words) {
  CLI::App app("Trains a video-text retrieval model: every config key is a flag, a flag wins over the file", "train");
  std::string file;
  app.add_option("--config", file, "JSON file of settings (as ClipBERT's)")->type_name("FILE");
  app.footer("\nConfig keys, each with its meaning, values and [default]:\n" + config::help_text());
  const auto split = split_words(app, words);
  if (!parse_flags(app, split.fixed)) return done;
  auto loaded = config::load(file.empty() ? std::nullopt : std::optional<std::filesystem::path>(file), split.keys);
  if (loaded.config.output_dir.value_or("").empty())
    throw usage_error("train: output_dir is not set; give --output_dir FOLDER");
  if (loaded.config.do_inference) return evaluate_run(inference_flags(loaded.config), false);
  if (!loaded.config.tokenizer_dir)
    throw usage_error("train: tokenizer_dir is not set; give the folder that holds vocab.txt");
  return loaded.config.dry_run ? run_dry(std::move(loaded)) : run_training(std::move(loaded));
}

}  // namespace clipbert::cli
