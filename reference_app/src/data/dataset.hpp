/// The retrieval training set: each video with its captions and drawn negatives.
#pragma once
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "data/batch.hpp"
#include "data/captions.hpp"
#include "data/clips.hpp"
#include "data/random.hpp"
#include "data/tokenizer.hpp"

namespace clipbert::data {

/// Defaults as ClipBERT's config.py.
struct RetrievalOptions {
  std::int64_t max_txt_len = 20;
  std::int64_t itm_neg_size = 1;             ///< negatives after each positive caption
  std::int64_t itm_hard_neg = 0;             ///< so many of them are the closest of `hard_candidates` by shared words
  std::int64_t max_n_example_per_group = 2;  ///< captions of one video that share its features
  bool training = true;                      ///< else groups of one caption, none repeated to fill a group
  double data_ratio = 1.0;                   ///< share of the records that is used
  std::uint64_t seed = 42;
  static constexpr int hard_candidates = 12;
};

/// Groups of one video and up to max_n_example_per_group of its captions, as ClipBERT forms them.
/// A negative never belongs to the group's video and never reads like one of that video's captions.
class RetrievalSet {
 public:
  /// throws  content_error if no record is left, or a video has no possible negative; as VideoSet
  RetrievalSet(const CaptionFile& captions, const ClipFolder& folder, std::shared_ptr<const Tokenizer> tokenizer,
               VideoSetOptions videos, RetrievalOptions options);

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(groups_.size()); }
  [[nodiscard]] std::int64_t examples() const { return size() * examples_per_group(); }
  [[nodiscard]] std::int64_t examples_per_group() const {
    return options_.training ? options_.max_n_example_per_group : 1;
  }
  [[nodiscard]] const VideoSet& videos() const { return videos_; }

  /// One micro batch of groups. What is random in a group depends on the seed, the epoch and the group's index only.
  /// throws  content_error when more than max_bad_videos of the videos are bad
  [[nodiscard]] Batch batch(std::span<const std::int64_t> groups, std::int64_t epoch) const;

 private:
  struct Text {
    std::int64_t record = 0;          ///< index in the caption file
    std::size_t video = 0;            ///< index in videos_
    std::size_t wording = 0;          ///< equal for texts that the tokenizer makes equal
    std::vector<std::int64_t> words;  ///< distinct tokens, sorted
    FittedText fitted;
  };
  struct Group {
    std::size_t video = 0;
    std::vector<std::size_t> texts;
  };
  void add_texts(const CaptionFile& captions, const std::vector<std::size_t>& chosen);
  void form_groups();
  [[nodiscard]] const Group& load_video(std::int64_t group, std::int64_t epoch, std::span<float> out) const;
  void add_examples(const Group& group, Random& random, Batch& batch) const;
  [[nodiscard]] std::size_t random_negative(std::size_t video, Random& random) const;
  [[nodiscard]] std::size_t hard_negative(const Text& positive, Random& random) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  RetrievalOptions options_;
  VideoSet videos_;
  std::vector<Text> texts_;
  std::vector<Group> groups_;
  std::vector<std::set<std::size_t>> wordings_;  // of each video
};

}  // namespace clipbert::data
