/// Weights files into a model.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace clipbert::model {
class ClipBert;
}

namespace clipbert::cli {

/// Reads all weights of a model from a file that this program wrote.
/// throws  content_error naming the file and the tensor that is missing, left over, or of another shape
void load_weights(model::ClipBert& model, const std::filesystem::path& file);

/// What a partial load found.
struct LoadReport {
  std::int64_t loaded = 0;
  std::vector<std::string> missing;  ///< of the model's tensors under the prefix
  std::vector<std::string> unused;   ///< of the file's tensors
  [[nodiscard]] std::string text(const std::filesystem::path& file) const;
};

/// Starts a model from a file made elsewhere: "module." is dropped from names, `prefix` is put before them.
/// throws  content_error if a shape differs, or less than nine tenths of the model's tensors under the prefix are in it
LoadReport start_from(model::ClipBert& model, const std::filesystem::path& file, const std::string& prefix);

}  // namespace clipbert::cli
