/// Where a training run starts: from a state, or anew; and what must go out of its folder first.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/run_folder.hpp"
#include "cli/training.hpp"
#include "io/value.hpp"
#include "train/state_files.hpp"

namespace clipbert::cli {

/// Holds the run's folder, and finds what `resume` asks for. Nothing in the folder moves until make_room().
class RunStart {
 public:
  /// `warnings` takes what differs from the run that is gone on with, and what was passed over.
  /// throws  usage_error if the folder cannot be had; as train::find_state
  RunStart(const Settings& settings, const TrainingData& data, Warnings& warnings);

  /// The state to go on from; nothing if the run starts anew.
  [[nodiscard]] const std::optional<train::TrainingState>& state() const { return state_; }
  /// The step that it stands at.
  [[nodiscard]] std::int64_t step() const { return state_ ? state_->step : foreign_step_; }
  /// True if the run starts without a state.
  [[nodiscard]] bool anew() const { return !state_ && !foreign_; }
  /// The step of the last validation.
  [[nodiscard]] std::int64_t validated() const;
  /// True if the run goes on in its own folder: what lies there is of this run.
  [[nodiscard]] bool same_run() const { return same_run_; }

  /// Loads the state into a trainer; one that another program saved becomes state() here.
  /// throws  content_error if it does not fit
  void load_into(train::Trainer& trainer, const model::ClipBert& model, const config::Config& config,
                 Warnings& warnings);

  /// Moves the files of another run, and those of later steps of this one, out of the way. Call it when all is read
  /// that may lie among them, and nothing can be wrong with it any more.
  /// -> where they went; nothing if none had to go
  [[nodiscard]] std::optional<std::filesystem::path> make_room() const;
  /// Frees the state's memory.
  void forget_state() { state_.reset(); }

 private:
  std::filesystem::path folder_;
  std::unique_ptr<RunLock> lock_;
  std::optional<train::TrainingState> state_;
  std::optional<io::Value> foreign_;  ///< of another program, not yet taken over
  std::filesystem::path foreign_file_;
  std::int64_t foreign_step_ = 0;
  bool same_run_ = false;
};

}  // namespace clipbert::cli
