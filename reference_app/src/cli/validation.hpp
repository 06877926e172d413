/// What a model is worth on a validation set: loss and accuracy of pairs, retrieval in both directions.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/settings.hpp"
#include "data/loader.hpp"
#include "eval/metrics.hpp"

namespace clipbert::model {
class ClipBert;
}
namespace clipbert::eval {
struct ScoreMatrix;
}

namespace clipbert::cli {

/// Values by the original's tag names without "valid/": loss, acc, text2video_r1, ..., video2text_meanR.
using Values = std::vector<std::pair<std::string, double>>;

/// True if `a` is better than `b`: ranks and losses fall, the others rise.
[[nodiscard]] bool better(const std::string& metric, double a, double b);

/// What run() measures, by name.
[[nodiscard]] bool is_measured(const std::string& metric);

/// Metrics of a score matrix of the captions of a file against videos.
[[nodiscard]] eval::Retrieval metrics_of(const eval::ScoreMatrix& matrix, const std::vector<data::Caption>& captions);

/// One validation set, opened once and run many times. Nothing in it is random.
class Validation {
 public:
  /// throws  content_error as data::RetrievalSet does
  Validation(const Settings& settings, const config::DatasetConfig& set,
             std::shared_ptr<const data::Tokenizer> tokenizer, std::function<void(const std::string&)> warn);

  /// Scores in the precision that the model is in. The model's mode and the random numbers of training stay as they
  /// are.
  [[nodiscard]] Values run(model::ClipBert& model) const;
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const data::CaptionFile& captions() const { return captions_; }
  [[nodiscard]] const data::VideoSet& videos() const { return set_->videos(); }

 private:
  [[nodiscard]] Values pairs(model::ClipBert& model) const;

  config::Config config_;
  std::string name_;
  data::CaptionFile captions_;
  std::shared_ptr<const data::Tokenizer> tokenizer_;
  std::shared_ptr<const data::RetrievalSet> set_;
};

}  // namespace clipbert::cli
