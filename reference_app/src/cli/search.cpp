#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/evaluate.hpp"
#include "cli/flags.hpp"
#include "cli/page.hpp"
#include "cli/picture.hpp"
#include "cli/table.hpp"
#include "config/errors.hpp"
#include "io/atomic_file.hpp"
#include "model/clipbert.hpp"

namespace fs = std::filesystem;

namespace clipbert::cli {
namespace {

struct SearchFlags {
  std::string output_dir, checkpoint, config, videos, html, step = "best";
  std::vector<std::string> queries;
  std::int64_t top_k = 5, n_clips = 0, threads = -1;
  bool json = false;
};

TrainedModel open(const SearchFlags& flags) {
  const bool of_run = !flags.output_dir.empty();
  if (of_run == !flags.checkpoint.empty() || flags.checkpoint.empty() != flags.config.empty()) {
    throw usage_error("search: give either --output_dir D, or --checkpoint F with --config C");
  }
  Words keys;
  if (flags.n_clips > 0) keys.insert(keys.end(), {"--inference_n_clips", std::to_string(flags.n_clips)});
  if (flags.threads >= 0) keys.insert(keys.end(), {"--num_threads", std::to_string(flags.threads)});
  const std::vector<std::string> paths{"tokenizer_dir", "model_config"};
  if (!of_run) {
    if (!fs::exists(flags.checkpoint)) {
      throw usage_error("search: checkpoint " + flags.checkpoint + " does not exist (" +
                        fs::absolute(flags.checkpoint).string() + ")");
    }
    return open_model(config::load(flags.config, keys), paths, {.checkpoint = flags.checkpoint});
  }
  keys.insert(keys.end(), {"--inference_model_step", flags.step});
  auto loaded = run_settings(flags.output_dir, keys);
  const auto step = loaded.config.inference_model_step;
  return open_model(std::move(loaded), paths, {.step = step});
}

/// What can be known before any work is checked before it.
void check_places(const SearchFlags& flags) {
  std::error_code error;
  if (!fs::is_directory(flags.videos, error)) {
    throw usage_error("search: videos " + flags.videos + " is no folder (" + fs::absolute(flags.videos).string() + ")");
  }
  if (flags.html.empty()) return;
  const fs::path page = fs::absolute(flags.html);
  if (fs::is_directory(page, error)) throw usage_error("search: html " + page.string() + " is a folder; name a file");
  if (!fs::is_directory(page.parent_path(), error)) {
    throw usage_error("search: html " + page.string() + " cannot be written: its folder is not there; make it first");
  }
}

/// The files of a folder: those to open, and those that cannot be.
struct Listing {
  std::vector<std::string> names;
  std::vector<eval::Unreadable> refused;
};

/// Every file of the folder but hidden ones; what is no video shows when it is opened.
Listing files_in(const data::ClipFolder& folder) {
  std::set<std::string> all;
  for (const auto& entry : fs::directory_iterator(folder.folder())) {
    std::error_code error;
    const auto name = entry.path().filename().string();
    if (!name.starts_with('.') && !entry.is_directory(error)) all.insert(name);
  }
  Listing list;
  for (const auto& name : all) {
    try {
      const auto file = folder.find(name);
      if (file && fs::path(file->name()).filename() == name)
        list.names.push_back(name);
      else
        list.refused.push_back({name, "no regular file, or a link to nothing"});
    } catch (const content_error& e) {
      list.refused.push_back({name, e.what()});
    }
  }
  if (!list.names.empty()) return list;
  std::string reasons;
  for (const auto& one : list.refused) reasons += "; " + one.name + ": " + one.reason;
  throw content_error("search: " + folder.folder().string() + " holds no file that can be read" + reasons);
}

std::string thumbnail(const fs::path& file) {
  constexpr int longest = 240;  // pixels
  try {
    data::Video video(file);
    const auto frame = video.frame(video.info().frames() / 2);
    return jpeg(frame.rgb, frame.width, frame.height, longest);
  } catch (const std::exception&) {
    return {};  // the page shows a grey field; what cannot be read was said before
  }
}

std::vector<Answer> ranked(const SearchFlags& flags, const eval::ScoreMatrix& matrix, std::size_t readable) {
  const auto scores = matrix.scores.accessor<float, 2>();
  std::vector<Answer> answers;
  for (std::size_t q = 0; q < flags.queries.size(); ++q) {
    Answer answer{.query = flags.queries[q], .hits = {}};
    for (std::size_t v = 0; v < readable; ++v) {
      answer.hits.push_back(
          {.name = matrix.videos[v],
           .path = (fs::path(flags.videos) / matrix.videos[v]).string(),
           .score = static_cast<double>(scores[static_cast<std::int64_t>(q)][static_cast<std::int64_t>(v)]),
           .thumbnail = {}});
    }
    std::ranges::stable_sort(answer.hits, std::greater<>(), &Hit::score);
    answer.hits.resize(std::min(answer.hits.size(), static_cast<std::size_t>(flags.top_k)));
    answers.push_back(std::move(answer));
  }
  return answers;
}

void write_page(const SearchFlags& flags, std::vector<Answer> answers, const std::string& note) {
  std::map<std::string, std::string> pictures;
  for (auto& answer : answers) {
    for (auto& hit : answer.hits) {
      const auto [found, is_new] = pictures.try_emplace(hit.path);
      if (is_new) found->second = thumbnail(hit.path);
      hit.thumbnail = found->second;
    }
  }
  io::write_atomically(flags.html, result_page(answers, note));
  std::cerr << "page written to " << flags.html << '\n';
}

void print_json(const std::vector<Answer>& answers, const eval::GalleryFeatures& features,
                const std::vector<data::ClipNote>& damaged) {
  nlohmann::ordered_json out{{"videos", features.names.size()},
                             {"unreadable", nlohmann::ordered_json::array()},
                             {"damaged", nlohmann::ordered_json::array()},
                             {"queries", nlohmann::ordered_json::array()}};
  for (const auto& video : features.unreadable)
    out["unreadable"].push_back({{"video", video.name}, {"reason", video.reason}});
  for (const auto& video : damaged) out["damaged"].push_back({{"video", video.clip}, {"reason", video.reason}});
  for (const auto& answer : answers) {
    nlohmann::ordered_json hits = nlohmann::ordered_json::array();
    for (std::size_t i = 0; i < answer.hits.size(); ++i) {
      hits.push_back({{"rank", i + 1},
                      {"video", answer.hits[i].name},
                      {"path", answer.hits[i].path},
                      {"score", answer.hits[i].score}});
    }
    out["queries"].push_back({{"query", answer.query}, {"hits", hits}});
  }
  std::cout << out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
}

void print_table(const std::vector<Answer>& answers) {
  for (const auto& answer : answers) {
    Table table({"\"" + answer.query + "\"", "score"});
    for (std::size_t i = 0; i < answer.hits.size(); ++i) {
      table.row({"  " + std::to_string(i + 1) + ". " + answer.hits[i].name, fixed(answer.hits[i].score, 4)});
    }
    std::cout << table.text();
  }
}

/// What a search knows of its videos.
struct Found {
  eval::GalleryFeatures features;
  std::vector<data::ClipNote> damaged;
};

/// Encodes the files of a folder and says which cannot be read or are damaged.
Found encode_files(TrainedModel& trained, const data::ClipFolder& folder) {
  Listing files = files_in(folder);
  const auto& c = trained.settings.config;
  const auto videos = std::make_shared<const data::VideoSet>(
      std::move(files.names), folder,
      data::VideoSetOptions{.clips = scoring_clips(c), .cache_bytes = 0, .max_bad_videos = 1.0});
  expect_memory(scoring_clips(c), std::min(c.inference_batch_size, static_cast<std::int64_t>(videos->size())),
                "the frames of a batch");
  Gallery gallery(videos, decode_threads(c));
  Found found{.features = encode(trained, gallery), .damaged = videos->damaged()};
  std::ranges::move(files.refused, std::back_inserter(found.features.unreadable));
  for (const auto& video : found.features.unreadable)
    std::cerr << "skipped " << video.name << ": " << video.reason << '\n';
  for (const auto& video : found.damaged)
    std::cerr << "damaged " << video.clip << ": what can be read of it is searched (" << video.reason << ")\n";
  return found;
}

}  // namespace

int search(const Words& words) {
  CLI::App app("Ranks the videos of a folder for each query, best first", "search");
  SearchFlags flags;
  app.add_option("query", flags.queries, "what to look for, one or more texts")->required();
  app.add_option("--output_dir", flags.output_dir, "folder of a run");
  app.add_option("--inference_model_step", flags.step, "weights of that step of the run, or best")
      ->capture_default_str();
  app.add_option("--checkpoint", flags.checkpoint, "weights file (.safetensors), instead of a run");
  app.add_option("--config", flags.config, "settings that the weights were trained with, for --checkpoint");
  app.add_option("--videos", flags.videos, "folder of video files; folders inside it are not searched")->required();
  app.add_option("--top_k", flags.top_k, "count of videos shown for a query")
      ->check(whole_number(1))
      ->capture_default_str();
  app.add_option("--inference_n_clips", flags.n_clips, "clips of each video, 0: as the run")
      ->check(whole_number(0))
      ->capture_default_str();
  app.add_option("--num_threads", flags.threads, "threads, 0: all cores, -1: as the run")
      ->check(whole_number(-1))
      ->capture_default_str();
  app.add_flag("--json", flags.json, "print JSON");
  app.add_option("--html", flags.html, "write a page with thumbnails to this file")->type_name("FILE");
  if (!parse_flags(app, words)) return done;
  check_places(flags);
  auto trained = open(flags);
  if (const auto cut = cut_texts(*trained.tokenizer, flags.queries, trained.settings.config.max_txt_len); !cut.empty())
    std::cerr << "warning: " << cut << '\n';
  const auto [features, damaged] = encode_files(trained, data::ClipFolder(flags.videos));
  const auto answers = ranked(flags, score(trained, flags.queries, features), features.names.size());

  if (flags.json)
    print_json(answers, features, damaged);
  else
    print_table(answers);
  if (!flags.html.empty()) {
    write_page(
        flags, answers,
        std::to_string(features.names.size()) + " videos of " + flags.videos + ", weights " + trained.file.string());
  }
  return done;
}

}  // namespace clipbert::cli
