#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/flags.hpp"
#include "cli/index.hpp"
#include "cli/page.hpp"
#include "cli/picture.hpp"
#include "cli/searching.hpp"
#include "cli/table.hpp"
#include "config/errors.hpp"
#include "io/atomic_file.hpp"
#include "model/clipbert.hpp"

namespace fs = std::filesystem;

namespace clipbert::cli {
namespace {

struct SearchFlags {
  ModelFlags model;
  std::string videos, index, html;
  std::vector<std::string> queries;
  std::int64_t top_k = 5;
  bool json = false;
};

/// The videos of a search, from a folder or from an index.
struct Searched {
  std::unique_ptr<const eval::Features> features;
  Condition condition;
  std::string folder;                                      ///< of the videos
  std::function<std::string(std::int64_t video)> picture;  ///< JPEG of a video, empty where there is none
};

std::string thumbnail(const std::optional<data::VideoSource>& source) {
  constexpr int longest = 240;  // pixels
  try {
    data::Video video(source.value());
    const auto frame = video.frame(video.info().frames() / 2);
    return jpeg(frame.rgb, frame.width, frame.height, longest);
  } catch (const std::exception&) {
    return {};  // the page shows a grey field; what cannot be read was said before
  }
}

Searched from_folder(TrainedModel& trained, const std::string& place) {
  const data::ClipFolder folder(place);
  Listing files = videos_in(folder);
  const auto asked = static_cast<std::int64_t>(files.names.size() + files.refused.size());
  const auto videos = open_videos(trained, folder, std::move(files.names));
  auto features = std::make_unique<eval::GalleryFeatures>();
  Searched gallery{.features = nullptr,
                   .condition = encode_videos(trained, videos,
                                              [&](std::int64_t video, const eval::VideoClips&, const at::Tensor& grid) {
                                                features->add(videos->name(static_cast<std::size_t>(video)), grid);
                                              }),
                   .folder = place,
                   .picture = {}};
  std::ranges::move(files.refused, std::back_inserter(gallery.condition.unreadable));
  eval::expect_readable(gallery.condition.unreadable, asked);
  report(gallery.condition);
  gallery.picture = [folder, names = features->names()](std::int64_t video) {
    return thumbnail(folder.find(names[static_cast<std::size_t>(video)]));
  };
  gallery.features = std::move(features);
  return gallery;
}

Searched from_index(const TrainedModel& trained, std::unique_ptr<const eval::FeatureIndex> index,
                    const std::string& file) {
  expect_origin(*index, trained, file);
  Searched gallery{.features = nullptr,
                   .condition = {.unreadable = index->unreadable(), .damaged = {}},
                   .folder = index->origin().folder,
                   .picture = [&index = *index](std::int64_t video) { return index.picture(video); }};
  for (const auto& video : index->damaged()) gallery.condition.damaged.push_back({video.name, video.reason});
  gallery.features = std::move(index);
  return gallery;
}

std::vector<Answer> ranked(const SearchFlags& flags, const eval::ScoreMatrix& matrix, const Searched& gallery) {
  std::vector<Answer> answers;
  std::map<std::int64_t, std::string> pictures;
  for (const auto& best : eval::best_videos(matrix, flags.top_k)) {
    Answer answer{.query = flags.queries[answers.size()], .hits = {}};
    for (const auto& hit : best) {
      if (!flags.html.empty() && !pictures.contains(hit.video)) pictures[hit.video] = gallery.picture(hit.video);
      const auto& name = matrix.videos[static_cast<std::size_t>(hit.video)];
      answer.hits.push_back({.name = name,
                             .path = (fs::path(gallery.folder) / name).string(),
                             .score = static_cast<double>(hit.score),
                             .thumbnail = flags.html.empty() ? std::string() : pictures.at(hit.video)});
    }
    answers.push_back(std::move(answer));
  }
  return answers;
}

void print_json(const std::vector<Answer>& answers, const Searched& gallery) {
  nlohmann::ordered_json out{{"videos", gallery.features->names().size()},
                             {"unreadable", nlohmann::ordered_json::array()},
                             {"damaged", nlohmann::ordered_json::array()},
                             {"queries", nlohmann::ordered_json::array()}};
  for (const auto& video : gallery.condition.unreadable)
    out["unreadable"].push_back({{"video", video.name}, {"reason", video.reason}});
  for (const auto& video : gallery.condition.damaged)
    out["damaged"].push_back({{"video", video.clip}, {"reason", video.reason}});
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

/// What can be known before any work is checked before it.
void check_places(const SearchFlags& flags) {
  if (flags.videos.empty() == flags.index.empty())
    throw usage_error("search: give either --videos DIR, or --index FILE that `clipbert index` made");
  if (!flags.videos.empty()) expect_folder(flags.videos, "search", "videos");
  if (!flags.html.empty()) expect_place(flags.html, "search", "html");
}

/// Model and videos; an index says how many clips its videos have.
Searched open_gallery(SearchFlags& flags, std::optional<TrainedModel>& trained) {
  std::unique_ptr<const eval::FeatureIndex> index;
  if (!flags.index.empty()) {
    if (!fs::exists(flags.index))
      throw usage_error("search: index " + flags.index + " does not exist; make one with `clipbert index`");
    index = std::make_unique<const eval::FeatureIndex>(flags.index);
    const auto clips = index->origin().n_clips;
    if (flags.model.n_clips > 0 && flags.model.n_clips != clips)
      throw usage_error("search: inference_n_clips " + std::to_string(flags.model.n_clips) + ", but " + flags.index +
                        " holds " + std::to_string(clips) + " clips of each video; leave the flag out");
    flags.model.n_clips = clips;
  }
  trained = open_model(flags.model, "search");
  if (const auto cut = cut_texts(*trained->tokenizer, flags.queries, trained->settings.config.max_txt_len);
      !cut.empty())
    std::cerr << "warning: " << cut << '\n';
  return index ? from_index(*trained, std::move(index), flags.index) : from_folder(*trained, flags.videos);
}

}  // namespace

int search(const Words& words) {
  CLI::App app("Ranks the videos of a folder, or of an index, for each query, best first", "search");
  SearchFlags flags;
  app.add_option("query", flags.queries, "what to look for, one or more texts")->required();
  flags.model.add_to(app);
  app.add_option("--videos", flags.videos, "folder of video files, or an LMDB; folders inside it are not searched")
      ->type_name("DIR");
  app.add_option("--index", flags.index, "what `clipbert index` made of a folder, instead of it; far faster")
      ->type_name("FILE");
  app.add_option("--top_k", flags.top_k, "count of videos shown for a query")
      ->check(whole_number(1))
      ->capture_default_str();
  app.add_flag("--json", flags.json, "print JSON");
  app.add_option("--html", flags.html, "write a page with thumbnails to this file")->type_name("FILE");
  if (!parse_flags(app, words)) return done;
  check_places(flags);
  std::optional<TrainedModel> trained;
  const Searched gallery = open_gallery(flags, trained);
  const auto answers = ranked(flags, score(*trained, flags.queries, *gallery.features), gallery);
  if (flags.json)
    print_json(answers, gallery);
  else
    print_table(answers);
  if (!flags.html.empty()) {
    io::write_atomically(flags.html,
                         result_page(answers, std::to_string(gallery.features->names().size()) + " videos of " +
                                                  gallery.folder + ", weights " + trained->file.string()));
    std::cerr << "page written to " << flags.html << '\n';
  }
  return done;
}

}  // namespace clipbert::cli
