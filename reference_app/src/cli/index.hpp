/// An index of videos and the model that it belongs to.
#pragma once
#include <filesystem>
#include <string>

#include "cli/searching.hpp"
#include "eval/feature_index.hpp"

namespace clipbert::cli {

/// What features of this model depend on.
[[nodiscard]] eval::IndexOrigin origin_of(const TrainedModel& trained, const std::filesystem::path& folder);

/// throws  content_error if the index was made with other weights or settings than a search has
void expect_origin(const eval::FeatureIndex& index, const TrainedModel& trained, const std::string& file);

}  // namespace clipbert::cli
