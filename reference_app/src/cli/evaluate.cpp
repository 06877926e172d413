#include "cli/evaluate.hpp"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/flags.hpp"
#include "cli/table.hpp"
#include "cli/validation.hpp"
#include "config/errors.hpp"
#include "io/atomic_file.hpp"
#include "model/clipbert.hpp"

namespace fs = std::filesystem;

namespace clipbert::cli {
namespace {

using Json = config::Json;

constexpr auto replace_bad_utf8 = Json::error_handler_t::replace;

void write(const fs::path& file, const Json& json) {
  io::write_atomically(file, json.dump(2, ' ', false, replace_bad_utf8) + "\n");
}

std::string metrics_table(const eval::Retrieval& r) {
  Table table({"", "R@1 %", "R@5 %", "R@10 %", "median rank", "mean rank"});
  const auto row = [&](const std::string& name, const eval::RankMetrics& m) {
    table.row({name, fixed(m.r1, 1), fixed(m.r5, 1), fixed(m.r10, 1), fixed(m.medianR, 1), fixed(m.meanR, 2)});
  };
  row("text to video", r.text2video.metrics);
  row("video to text", r.video2text.metrics);
  row("video to any of its texts", r.video2text_any.metrics);
  return table.text();
}

/// results_<stem>/step_<N>_<clips>_<agg> of the output folder.
fs::path results_folder(const TrainedModel& trained) {
  const auto& c = trained.settings.config;
  return fs::path(*c.output_dir) / ("results_" + fs::path(*c.inference_txt_db).stem().string()) /
         ("step_" + trained.step + "_" + std::to_string(c.inference_n_clips) + "_" + c.score_agg_func);
}

}  // namespace

config::Loaded run_settings(const std::string& output_dir, const Words& flags) {
  const fs::path folder = fs::path(output_dir) / "log", file = folder / "args.json";
  if (!fs::exists(file)) {
    throw usage_error("output_dir " + output_dir + " (" + fs::absolute(output_dir).string() +
                      ") holds no run: log/args.json is not there; train first, or give the folder of a run");
  }
  auto loaded = config::load(file, flags);
  auto& c = loaded.config;
  const auto own = [&](const char* key) {
    const auto found = c.given.find(key);
    return found == c.given.end() || found->second != config::Source::flag;
  };
  if (own("model_config") && fs::exists(folder / "model_config.json")) {
    c.model_config = fs::absolute(folder / "model_config.json").string();
  }
  if (own("tokenizer_dir") && fs::exists(folder / "vocab.txt")) c.tokenizer_dir = fs::absolute(folder).string();
  c.given.erase("dropout");  // it stands in model_config.json already
  c.output_dir = output_dir;
  loaded.warnings.clear();  // the training run said them
  return loaded;
}

namespace {

/// Encodes all videos and says which cannot be read or are damaged.
/// throws  content_error if more than max_bad_videos cannot be read
eval::GalleryFeatures encode_all(TrainedModel& trained, const std::shared_ptr<const data::VideoSet>& videos) {
  const auto& c = trained.settings.config;
  eval::GalleryFeatures features;
  auto [unreadable, damaged] =
      encode_videos(trained, videos, [&](std::int64_t video, const eval::VideoClips&, const at::Tensor& grid) {
        features.add(videos->name(static_cast<std::size_t>(video)), grid);
      });
  for (const auto& video : unreadable) {
    std::cerr << "warning: " << video.name << " cannot be read and scores 0: " << video.reason << '\n';
  }
  for (const auto& video : damaged) {
    std::cerr << "warning: " << video.clip << " is damaged, what can be read of it is used: " << video.reason << '\n';
  }
  eval::expect_readable(unreadable, static_cast<std::int64_t>(videos->size()));
  if (static_cast<double>(unreadable.size()) > c.max_bad_videos * static_cast<double>(videos->size())) {
    throw content_error(std::to_string(unreadable.size()) + " of " + std::to_string(videos->size()) +
                        " videos cannot be read, more than max_bad_videos " + number(c.max_bad_videos) +
                        "; the first is " + unreadable.front().name + ": " + unreadable.front().reason);
  }
  features.set_unreadable(std::move(unreadable));
  return features;
}

/// Writes the result files. -> their folder
fs::path write_results(const TrainedModel& trained, const config::Config& asked, const eval::ScoreMatrix& matrix,
                       const Json& scores) {
  const fs::path folder = results_folder(trained);
  fs::create_directories(folder);
  io::AtomicFile results(folder / "results.json");
  eval::write_results(matrix, [&](std::string_view piece) { results.write(piece); });
  results.commit();
  write(folder / "scores.json", scores);
  const Json all = config::to_json(asked);
  Json raw = Json::object();
  for (const auto& [key, source] : asked.given) raw[key] = all.at(key);
  write(folder / "raw_args.json", raw);
  write(folder / "merged_args.json", config::to_json(trained.settings.config));
  return folder;
}

}  // namespace

int evaluate_run(const Words& flags, bool json) {
  const config::Loaded asked = config::load(std::nullopt, flags);
  if (asked.config.output_dir.value_or("").empty())
    throw usage_error("eval: output_dir is not set; give the folder of a run");
  auto loaded = run_settings(*asked.config.output_dir, flags);
  for (const char* key : {"inference_txt_db", "inference_img_db"}) {
    if (!config::is_given(asked.config, key)) throw usage_error(std::string("eval: ") + key + " is not set");
  }
  const std::vector<std::string> paths{"inference_txt_db", "inference_img_db", "tokenizer_dir"};
  auto trained = open_model(std::move(loaded), paths, {.step = asked.config.inference_model_step});
  const auto& c = trained.settings.config;

  const auto captions = data::read_good_captions(*c.inference_txt_db);
  if (const auto report = captions.warning_report(); !report.empty()) std::cerr << "warning: " << report << '\n';
  const auto texts = texts_of(captions);
  if (const auto cut = cut_texts(*trained.tokenizer, texts, c.max_txt_len); !cut.empty())
    std::cerr << "warning: " << cut << '\n';
  const auto videos = std::make_shared<const data::VideoSet>(
      data::distinct_clips(captions.records), data::ClipFolder(*c.inference_img_db),
      data::VideoSetOptions{.clips = scoring_clips(c), .cache_bytes = 0, .max_bad_videos = c.max_bad_videos});
  const auto matrix = score(trained, texts, encode_all(trained, videos));
  const auto retrieval = metrics_of(matrix, captions.records);
  Json scores = eval::to_json(retrieval);
  const fs::path folder = write_results(trained, asked.config, matrix, scores);
  if (json) {
    scores["step"] = trained.step;
    scores["n_clips"] = c.inference_n_clips;
    scores["opt_level"] = *c.opt_level;
    scores["results"] = folder.string();
    std::cout << scores.dump(2, ' ', false, replace_bad_utf8) << '\n';
    return done;
  }
  std::cout << captions.records.size() << " captions, " << videos->size() << " videos, " << c.inference_n_clips
            << " clips, weights of step " << trained.step << '\n'
            << metrics_table(retrieval) << "written to " << folder.string() << '\n';
  return done;
}

int eval(const Words& words) {
  CLI::App app("Scores every caption of a file against every video of a folder with a run's weights", "eval");
  bool json = false;
  app.add_flag("--json", json, "print the metrics as JSON");
  app.footer(
      "\nNeeded:\n"
      "  --output_dir D                  folder of the run\n"
      "  --inference_txt_db F            caption file, JSON lines\n"
      "  --inference_img_db V            folder of the videos, or an LMDB\n"
      "Often wanted:\n"
      "  --inference_model_step N|best   weights of that step [the newest]\n"
      "  --inference_n_clips K           clips of each video [as the run]\n"
      "  --score_agg_func lse|mean|max   how the scores of clips become one [as the run]\n"
      "  --n_workers N                   videos decoded ahead, a thread each [as the run]\n"
      "  --num_threads N                 threads, 0: all cores [as the run]\n"
      "Every other config key is a flag too (`clipbert train --help`); it wins over the run's value.\n"
      "Written: D/results_<stem of F>/step_<N>_<K>_<agg>/{results,scores,raw_args,merged_args}.json\n");
  const auto split = split_words(app, words);
  if (!parse_flags(app, split.fixed)) return done;
  return evaluate_run(split.keys, json);
}

}  // namespace clipbert::cli
