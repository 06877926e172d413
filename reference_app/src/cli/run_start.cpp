#include "cli/run_start.hpp"

#include <string>
#include <utility>

#include "config/load.hpp"
#include "io/atomic_file.hpp"
#include "io/checkpoint_file.hpp"
#include "train/foreign_state.hpp"
#include "train/trainer.hpp"

namespace fs = std::filesystem;

namespace clipbert::cli {
namespace {

using config::Json;

std::string dumped(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

/// What differs from the run that is gone on with, as warnings.
void note_changes(const fs::path& log_folder, const Settings& settings, const TrainingData& data, Warnings& warnings) {
  const fs::path args_file = log_folder / "args.json";
  if (!fs::exists(args_file)) return;
  try {
    if (data.tokenizer->vocabulary() != data::Vocabulary(log_folder / "vocab.txt"))
      warnings.add("the vocabulary is not that of the run that is resumed: its tokens mean other words now");
    const Json before = config::read_json(args_file).root, args = config::to_json(settings.config);
    std::string changed;
    for (const auto& [key, value] : args.items()) {
      if (key == "resume" || key == "num_threads" || key == "n_workers" || !before.contains(key) ||
          before[key] == value)
        continue;
      changed += (changed.empty() ? "" : ", ") + key + " " + dumped(before[key]) + " -> " + dumped(value);
    }
    if (!changed.empty()) warnings.add("settings differ from those of the run that is resumed: " + changed);
  } catch (const std::exception& e) {  // the state does not depend on these files
    warnings.add(std::string("the settings of the run that is resumed cannot be compared: ") + e.what());
  }
}

bool is_same_folder(const fs::path& a, const fs::path& b) {
  std::error_code missing;
  return !a.empty() && fs::equivalent(a, b, missing);
}

}  // namespace

RunStart::RunStart(const Settings& settings, const TrainingData& data, Warnings& warnings)
    : folder_(*settings.config.output_dir), lock_(std::make_unique<RunLock>(folder_)) {
  for (const char* part : {"log", "ckpt", "restore"}) io::remove_leftovers(folder_ / part);
  const std::string& how = settings.config.resume;
  const bool by_path = how != "auto" && how != "never" && how != "required";
  if (by_path && fs::is_regular_file(how) && !train::is_own_state(how)) {
    foreign_file_ = how;
    foreign_ = io::read_checkpoint(foreign_file_);
    foreign_step_ = train::foreign_step(*foreign_, foreign_file_);
    return;
  }
  auto found = train::find_state(how, folder_, [&](std::string_view line) { warnings.add(std::string(line)); });
  if (!found) return;
  same_run_ = is_same_folder(found->run, folder_);
  if (!found->run.empty()) note_changes(found->run / "log", settings, data, warnings);
  state_ = std::move(found->state);
}

std::int64_t RunStart::validated() const { return state_ ? state_->meta.value("validated", step()) : step(); }

void RunStart::load_into(train::Trainer& trainer, const model::ClipBert& model, const config::Config& config,
                         Warnings& warnings) {
  if (foreign_) {
    state_ = train::from_foreign(*foreign_, foreign_file_, trainer, model, config,
                                 [&](std::string_view line) { warnings.add(std::string(line)); });
    foreign_.reset();
  }
  if (state_) trainer.load(*state_);
}

std::optional<fs::path> RunStart::make_room() const {
  return state_ && same_run_ ? set_aside_after(folder_, state_->step) : set_aside_run(folder_);
}

}  // namespace clipbert::cli
