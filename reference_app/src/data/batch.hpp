/// What a data loader yields and the trainer eats: plain buffers, no tensor library.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace clipbert::data {

/// One micro batch of videos with their captions.
/// frames    (videos, clips * frames per clip, 3, height, width), RGB, normalised, clip-major in time
/// ids, mask (texts, length); texts = sum of n_examples; a video's texts stand together, its positive first
/// labels    (texts): 1 for a matching pair, 0 else (with one label per pair in a rank loss: position 0 is the
/// positive)
struct Batch {
  std::int64_t videos = 0, clips = 0, frames_per_clip = 0, height = 0, width = 0;
  std::int64_t texts = 0, length = 0;
  std::vector<float> frames;
  std::vector<std::int64_t> ids, mask, labels;
  std::vector<std::int64_t> n_examples;   ///< texts of each video
  std::vector<std::string> video_names;   ///< clip_name of each video
  std::vector<std::int64_t> caption_ids;  ///< record index of each text
};

/// A finite or endless stream of micro batches, in an order that depends on the seed only.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// The next batch, or nothing at the end.
  virtual std::optional<Batch> next() = 0;
  /// Micro batches handed out so far; with `seek` a resumed run goes on where the stopped one was.
  [[nodiscard]] virtual std::int64_t position() const = 0;
  virtual void seek(std::int64_t position) = 0;
};

}  // namespace clipbert::data
