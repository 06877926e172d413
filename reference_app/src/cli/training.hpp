/// A training run from settings: data, model, trainer. What train and compare have in common.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cli/settings.hpp"
#include "cli/validation.hpp"
#include "data/loader.hpp"
#include "log/event_sink.hpp"
#include "train/schedule.hpp"
#include "train/trainer.hpp"

namespace clipbert::cli {

/// Lines from loader threads, kept until the main thread takes them.
class Warnings {
 public:
  void add(const std::string& line);
  [[nodiscard]] std::vector<std::string> take();
  /// A function that adds; it may outlive nothing but this object.
  [[nodiscard]] std::function<void(const std::string&)> sink();

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

/// The opened training data and what follows from its size.
struct TrainingData {
  data::CaptionFile captions;
  std::shared_ptr<const data::Tokenizer> tokenizer;
  std::shared_ptr<const data::RetrievalSet> set;
  std::vector<std::unique_ptr<Validation>> validations;
  train::RunPlan plan;
  std::int64_t save_steps = 1;  ///< steps between two states
};

/// Opens captions, folders and vocabulary; all bad lines of all caption files are one error.
/// throws  usage_error, content_error
[[nodiscard]] TrainingData open_data(const Settings& settings, Warnings& warnings);

/// What the trainer is told.
[[nodiscard]] train::TrainerSettings trainer_settings(const Settings& settings, const train::RunPlan& plan);

/// A model as its settings say, with random weights of the seed or those of the weights paths.
/// anew  false: the weights come from elsewhere, so no file is read
/// said  takes a line per file read, or the notice that the run starts from scratch
[[nodiscard]] std::shared_ptr<model::ClipBert> build_model(const Settings& settings, bool anew,
                                                           const std::function<void(const std::string&)>& said);

/// The source of micro batches.
[[nodiscard]] std::unique_ptr<data::Loader> make_loader(const Settings& settings, const TrainingData& data);

}  // namespace clipbert::cli
