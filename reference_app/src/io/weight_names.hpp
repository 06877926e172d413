/// From the names in a weights file to the names of a model.
#pragma once
#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "io/tensor.hpp"

namespace clipbert::io {

using Shape = std::vector<std::int64_t>;
using Shapes = std::map<std::string, Shape>;

[[nodiscard]] Shapes shapes_of(const Tensors& tensors);

/// What a file has of a model. All names are the model's, or, of what it lacks, the file's after normalisation.
struct NameMatch {
  std::map<std::string, std::string> loaded;  ///< model's name -> file's name, of the same shape
  std::vector<std::string> missing;           ///< of the model, in no form in the file
  std::vector<std::string> unexpected;        ///< of the file, not the model's
  std::vector<std::string> mismatched;        ///< in both, with different shapes
  std::vector<std::string> shapes;            ///< of each mismatched: "name: [3, 32] in the file, [2, 32] in the model"
  std::vector<std::string> detector;          ///< of the file: parts of the original's detector that nothing uses
  std::size_t dropped_module = 0, renamed_norms = 0, added_prefix = 0;  ///< names that were normalised

  /// Share of the model's tensors that are loaded.
  [[nodiscard]] double share() const;
  [[nodiscard]] bool complete() const { return missing.empty() && unexpected.empty() && mismatched.empty(); }
  /// One line: how many are loaded, what was done to names, what is missing, unexpected and mis-shaped. `most` names of
  /// each kind are listed.
  [[nodiscard]] std::string report(std::size_t most = 6) const;
};

/// Finds the model's tensor for each of the file's: leading "module." is dropped; gamma and beta of a LayerNorm become
/// weight and bias; the first of `prefixes` that leads to a name of the model is put before it.
/// throws  content_error if two names of the file become one
[[nodiscard]] NameMatch match_names(const Shapes& file, const Shapes& model, const std::vector<std::string>& prefixes,
                                    const std::filesystem::path& where);

/// The tensors under the model's names, where `match` found them, else under their own.
[[nodiscard]] Tensors renamed(Tensors tensors, const NameMatch& match);

}  // namespace clipbert::io
