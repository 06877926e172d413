/// Captions against videos: the one way in which validation, eval and search score.
#pragma once
#include <amp_torch/op_cast.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/settings.hpp"
#include "data/clips.hpp"
#include "data/tokenizer.hpp"
#include "eval/retrieval.hpp"

namespace clipbert::cli {

/// The videos of a set for scoring, decoded ahead by threads.
class Gallery : public eval::GallerySource {
 public:
  /// ahead  videos that are decoded at a time, each by a thread of its own; at least one
  Gallery(std::shared_ptr<const data::VideoSet> videos, std::int64_t ahead);
  ~Gallery() override;

  [[nodiscard]] std::int64_t size() const override;
  [[nodiscard]] std::string name(std::int64_t video) const override;
  eval::VideoClips clips(std::int64_t video) override;

 private:
  struct Ahead;
  std::shared_ptr<const data::VideoSet> videos_;
  std::unique_ptr<Ahead> ahead_;
};

/// Texts as the model takes them; text ids are 0, 1, 2, ...
[[nodiscard]] eval::Captions tokenized(const data::Tokenizer& tokenizer, const std::vector<std::string>& texts,
                                       std::int64_t max_txt_len);

/// The texts of a caption file, in its order.
[[nodiscard]] std::vector<std::string> texts_of(const data::CaptionFile& captions);

/// Which texts are longer than the model takes, as one line; empty if none is.
[[nodiscard]] std::string cut_texts(const data::Tokenizer& tokenizer, const std::vector<std::string>& texts,
                                    std::int64_t max_txt_len);

/// A trained model with what it needs to score.
struct TrainedModel {
  Settings settings;
  std::shared_ptr<model::ClipBert> model;
  std::shared_ptr<const data::Tokenizer> tokenizer;
  std::filesystem::path file;  ///< of the weights
  std::string step;            ///< "1700", or "best" where the file's name tells no step
};

/// What a forward pass for scores runs in: O1 casts per operation, other levels have cast the model.
[[nodiscard]] amp_torch::OpCast scoring_region(const config::Config& config);

/// Which weights to take.
struct ModelChoice {
  config::ModelStep step = {};                           ///< of the run in output_dir
  std::optional<std::filesystem::path> checkpoint = {};  ///< a file; then the run is not looked at
};

/// Builds the model of a run, or of a config, reads its weights, and casts it as its level says.
/// throws  usage_error, content_error
[[nodiscard]] TrainedModel open_model(config::Loaded loaded, std::span<const std::string> paths,
                                      const ModelChoice& choice);

/// How many videos are decoded ahead: what n_workers and inference_batch_size allow.
[[nodiscard]] std::int64_t videos_ahead(const config::Config& config);

/// What is wrong with the videos of a set.
struct Condition {
  std::vector<eval::Unreadable> unreadable;
  std::vector<data::ClipNote> damaged;  ///< what can be read of them is used
};

/// Decodes and encodes each video of a set once, in the precision of the model's level, and hands it on at once.
/// throws  usage_error if the frames cannot fit the machine
Condition encode_videos(TrainedModel& trained, const std::shared_ptr<const data::VideoSet>& videos,
                        const eval::TakeGrid& take);

/// Scores all texts in the precision of the model's level.
[[nodiscard]] eval::ScoreMatrix score(TrainedModel& trained, const std::vector<std::string>& texts,
                                      const eval::Features& features);

}  // namespace clipbert::cli
