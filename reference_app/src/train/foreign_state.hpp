/// States that other programs saved: the original's restore file, and apex's {model, optimizer, amp}.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

#include "config/config.hpp"
#include "io/value.hpp"
#include "train/state.hpp"

namespace clipbert::model {
class ClipBert;
}

namespace clipbert::train {

class Trainer;

/// The step that such a state stands at: its global_step, else Adam's.
/// throws  content_error if it has neither
[[nodiscard]] std::int64_t foreign_step(const io::Value& checkpoint, const std::filesystem::path& file);

/// The trainer's state with what `checkpoint` holds in its place: weights (masters are made of them), moments and
/// counters of the optimizer, loss scale. Random numbers are the trainer's; the data go on behind the batches of the
/// steps done. A loss scale of 0 or infinity becomes scale_init.
/// remark  takes a line per thing that is not as it was: halved precision, a scale that was replaced
/// throws  content_error naming what does not fit the model
[[nodiscard]] TrainingState from_foreign(const io::Value& checkpoint, const std::filesystem::path& file,
                                         const Trainer& trainer, const model::ClipBert& model,
                                         const config::Config& config,
                                         const std::function<void(std::string_view)>& remark);

}  // namespace clipbert::train
