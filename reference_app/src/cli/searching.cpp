#include "cli/searching.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <set>

#include "cli/evaluate.hpp"
#include "cli/flags.hpp"
#include "config/errors.hpp"
#include "model/clipbert.hpp"

namespace fs = std::filesystem;

namespace clipbert::cli {

void ModelFlags::add_to(CLI::App& app) {
  app.add_option("--output_dir", output_dir, "folder of a run, whose weights are taken");
  app.add_option("--inference_model_step", step, "weights of that step of the run, or best")->capture_default_str();
  app.add_option("--checkpoint", checkpoint, "weights file, instead of a run")->type_name("FILE");
  app.add_option("--config", config, "settings that these weights were trained with, for --checkpoint")
      ->type_name("FILE");
  app.add_option("--inference_n_clips", n_clips, "clips of each video, 0: as the run (with --index: as the index)")
      ->check(whole_number(0))
      ->capture_default_str();
  app.add_option("--num_threads", threads, "threads that compute, 0: all cores, -1: as the run")
      ->check(whole_number(-1))
      ->capture_default_str();
  app.add_option("--n_workers", workers, "videos decoded ahead, a thread each, -1: as the run")
      ->check(whole_number(-1))
      ->capture_default_str();
}

TrainedModel open_model(const ModelFlags& flags, const std::string& command) {
  const bool of_run = !flags.output_dir.empty();
  if (of_run == !flags.checkpoint.empty() || flags.checkpoint.empty() != flags.config.empty()) {
    throw usage_error(command + ": give either --output_dir D, or --checkpoint F with --config C");
  }
  Words keys;
  if (flags.n_clips > 0) keys.insert(keys.end(), {"--inference_n_clips", std::to_string(flags.n_clips)});
  if (flags.threads >= 0) keys.insert(keys.end(), {"--num_threads", std::to_string(flags.threads)});
  if (flags.workers >= 0) keys.insert(keys.end(), {"--n_workers", std::to_string(flags.workers)});
  const std::vector<std::string> paths{"tokenizer_dir", "model_config"};
  if (!of_run) {
    if (!fs::exists(flags.checkpoint)) {
      throw usage_error(command + ": checkpoint " + flags.checkpoint + " does not exist (" +
                        fs::absolute(flags.checkpoint).string() + ")");
    }
    return open_model(config::load(flags.config, keys), paths, {.checkpoint = flags.checkpoint});
  }
  keys.insert(keys.end(), {"--inference_model_step", flags.step});
  auto loaded = run_settings(flags.output_dir, keys);
  const auto step = loaded.config.inference_model_step;
  return open_model(std::move(loaded), paths, {.step = step});
}

void expect_folder(const std::string& folder, const std::string& command, const std::string& flag) {
  std::error_code error;
  if (fs::is_directory(folder, error)) return;
  throw usage_error(command + ": " + flag + " " + folder + " is no folder (" + fs::absolute(folder).string() + ")");
}

void expect_place(const std::string& file, const std::string& command, const std::string& flag) {
  std::error_code error;
  const fs::path place = fs::absolute(file);
  const auto what = command + ": " + flag + " " + place.string();
  if (fs::is_directory(place, error)) throw usage_error(what + " is a folder; name a file");
  if (!fs::is_directory(place.parent_path(), error)) {
    throw usage_error(what + " cannot be written: its folder is not there; make it first");
  }
}

Listing videos_in(const data::ClipFolder& folder) {
  const auto found = folder.names();
  std::set<std::string> all(found.begin(), found.end());
  if (!folder.is_lmdb()) {  // what is there and is no file is named, not passed over
    for (const auto& entry : fs::directory_iterator(folder.folder())) {
      std::error_code error;
      const auto name = entry.path().filename().string();
      if (!name.starts_with('.') && !entry.is_directory(error)) all.insert(name);
    }
  }
  Listing list;
  for (const auto& name : all) {
    try {
      if (std::ranges::binary_search(found, name) && folder.find(name))
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
  throw content_error(folder.folder().string() + ": holds no " + folder.entry() + " that can be read" + reasons);
}

std::shared_ptr<const data::VideoSet> open_videos(const TrainedModel& trained, const data::ClipFolder& folder,
                                                  std::vector<std::string> names) {
  return std::make_shared<const data::VideoSet>(
      std::move(names), folder,
      data::VideoSetOptions{.clips = scoring_clips(trained.settings.config), .cache_bytes = 0, .max_bad_videos = 1.0});
}

void report(const Condition& condition) {
  for (const auto& video : condition.unreadable) std::cerr << "skipped " << video.name << ": " << video.reason << '\n';
  for (const auto& video : condition.damaged)
    std::cerr << "damaged " << video.clip << ": what can be read of it is searched (" << video.reason << ")\n";
}

}  // namespace clipbert::cli
