/// Weights files into a model.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "io/weight_names.hpp"

namespace clipbert::model {
class ClipBert;
}

namespace clipbert::cli {

/// Reads all weights of a model from a file in any format, under the original's names.
/// throws  content_error naming the file and each tensor that is missing, left over, of another shape or not finite
void load_weights(model::ClipBert& model, const std::filesystem::path& file);

/// What a partial load found.
struct LoadReport {
  io::NameMatch match;
  std::vector<std::string> fresh;  ///< of the model, which no file of this kind has: they keep their initial values
  std::string remarks;             ///< about the file
  /// One line of all of it.
  [[nodiscard]] std::string text(const std::filesystem::path& file) const;
};

/// Starts a model from a file made elsewhere. The part that is looked at is the model's under `prefix`: all of it (""),
/// the trunk of a detector ("cnn.feature."), or the transformer ("transformer.") of a BERT, which has no visual
/// embeddings and no classifier. Names are normalised as io::match_names says.
/// least   share of that part's tensors that the file must hold, 0 to 1
/// throws  content_error if it holds fewer, or one that is not finite; the model is untouched then
LoadReport start_from(model::ClipBert& model, const std::filesystem::path& file, const std::string& prefix,
                      double least = 0.9);

}  // namespace clipbert::cli
