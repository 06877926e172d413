#include "data/dataset.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "config/errors.hpp"

namespace clipbert::data {
namespace {

// Names of the independent random streams of one seed.
enum Stream : std::uint64_t { ratio_stream = 1, group_stream, item_stream };

/// The records that data_ratio leaves, in file order.
std::vector<std::size_t> chosen_records(std::size_t count, const RetrievalOptions& options) {
  std::vector<std::size_t> chosen(count);
  std::iota(chosen.begin(), chosen.end(), std::size_t{0});
  if (options.data_ratio < 1.0) {
    Random random{options.seed, ratio_stream};
    random.shuffle(chosen);
    chosen.resize(static_cast<std::size_t>(static_cast<double>(count) * options.data_ratio));
    std::sort(chosen.begin(), chosen.end());
  }
  return chosen;
}

std::vector<std::string> clips_of(const CaptionFile& captions, const std::vector<std::size_t>& chosen) {
  std::vector<Caption> records;
  for (const std::size_t index : chosen) records.push_back(captions.records[index]);
  return distinct_clips(records);
}

std::size_t shared_words(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  std::size_t count = 0;
  for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end();) {
    if (*i < *j) {
      ++i;
    } else if (*j < *i) {
      ++j;
    } else {
      ++count, ++i, ++j;
    }
  }
  return count;
}

}  // namespace

RetrievalSet::RetrievalSet(const CaptionFile& captions, const ClipFolder& folder,
                           std::shared_ptr<const Tokenizer> tokenizer, VideoSetOptions videos, RetrievalOptions options)
    : tokenizer_(std::move(tokenizer)),
      options_(options),
      videos_(clips_of(captions, chosen_records(captions.records.size(), options)), folder, std::move(videos)) {
  const auto chosen = chosen_records(captions.records.size(), options_);
  if (chosen.empty()) throw content_error(captions.file.string() + ": no record is left to train on; raise data_ratio");
  add_texts(captions, chosen);
  form_groups();
}

void RetrievalSet::add_texts(const CaptionFile& captions, const std::vector<std::size_t>& chosen) {
  std::unordered_map<std::string, std::size_t> video_of;
  for (std::size_t i = 0; i < videos_.size(); ++i) video_of[videos_.name(i)] = i;
  wordings_.resize(videos_.size());
  std::map<std::vector<std::int64_t>, std::size_t> wordings;
  for (const std::size_t index : chosen) {
    const Caption& record = captions.records[index];
    Text text;
    text.record = static_cast<std::int64_t>(index);
    text.video = video_of.at(record.clip);
    text.words = tokenizer_->encode(record.text);
    text.wording = wordings.try_emplace(text.words, wordings.size()).first->second;
    text.fitted = tokenizer_->fit(record.text, options_.max_txt_len);
    text.words = std::vector<std::int64_t>(text.words.begin() + 1, text.words.end() - 1);
    std::sort(text.words.begin(), text.words.end());
    text.words.erase(std::unique(text.words.begin(), text.words.end()), text.words.end());
    wordings_[text.video].insert(text.wording);
    texts_.push_back(std::move(text));
  }
  for (std::size_t video = 0; video < videos_.size() && options_.itm_neg_size > 0; ++video) {
    if (wordings_[video].size() == wordings.size()) {
      throw content_error(captions.file.string() + ": clip \"" + videos_.name(video) +
                          "\" has no negative: every caption of the file reads like one of its own; add captions of "
                          "other videos, or set "
                          "itm_neg_size 0");
    }
  }
}

void RetrievalSet::form_groups() {
  std::vector<std::vector<std::size_t>> by_video(videos_.size());
  for (std::size_t i = 0; i < texts_.size(); ++i) by_video[texts_[i].video].push_back(i);
  const auto room = static_cast<std::size_t>(std::max<std::int64_t>(1, examples_per_group()));
  Random random{options_.seed, group_stream};
  for (std::size_t video = 0; video < by_video.size(); ++video) {
    std::vector<std::size_t>& texts = by_video[video];
    const std::size_t own = texts.size();
    while (options_.training && texts.size() % room != 0) texts.push_back(texts[random.below(own)]);
    for (std::size_t at = 0; at < texts.size(); at += room) {
      const auto begin = texts.begin() + static_cast<std::ptrdiff_t>(at);
      groups_.push_back({video, {begin, begin + static_cast<std::ptrdiff_t>(std::min(room, texts.size() - at))}});
    }
  }
}

/// Loads the group's video; where it is bad, that of another group, which then takes its place.
const RetrievalSet::Group& RetrievalSet::load_video(std::int64_t group, std::int64_t epoch,
                                                    std::span<float> out) const {
  constexpr std::uint64_t most_attempts = 1000;
  auto index = static_cast<std::size_t>(group);
  for (std::uint64_t attempt = 0; attempt < most_attempts; ++attempt) {
    // A stream per attempt: whether a bad video was known or is found now changes nothing.
    Random random{options_.seed, item_stream, static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(group),
                  attempt};
    if (attempt > 0) index = random.below(groups_.size());
    if (videos_.load(groups_[index].video, random, out)) return groups_[index];
  }
  throw content_error("no readable video was found to replace clip \"" +
                      videos_.name(groups_[static_cast<std::size_t>(group)].video) + "\"");
}

/// A caption of another video that does not read like one of this video's.
std::size_t RetrievalSet::random_negative(std::size_t video, Random& random) const {
  const auto fits = [&](std::size_t text) { return !wordings_[video].contains(texts_[text].wording); };
  for (int attempt = 0; attempt < 64; ++attempt) {
    const Group& group = groups_[random.below(groups_.size())];
    const std::size_t text = group.texts[random.below(group.texts.size())];
    if (fits(text)) return text;
  }
  std::vector<std::size_t> all;
  for (std::size_t text = 0; text < texts_.size(); ++text) {
    if (fits(text)) all.push_back(text);
  }
  return all[random.below(all.size())];
}

std::size_t RetrievalSet::hard_negative(const Text& positive, Random& random) const {
  std::size_t best = random_negative(positive.video, random);
  std::size_t best_shared = shared_words(positive.words, texts_[best].words);
  for (int i = 1; i < RetrievalOptions::hard_candidates; ++i) {
    const std::size_t text = random_negative(positive.video, random);
    const std::size_t shared = shared_words(positive.words, texts_[text].words);
    if (shared > best_shared) best = text, best_shared = shared;
  }
  return best;
}

void RetrievalSet::add_examples(const Group& group, Random& random, Batch& batch) const {
  const auto add = [&](const Text& text, std::int64_t label) {
    batch.ids.insert(batch.ids.end(), text.fitted.ids.begin(), text.fitted.ids.end());
    batch.mask.insert(batch.mask.end(), text.fitted.mask.begin(), text.fitted.mask.end());
    batch.labels.push_back(label);
    batch.caption_ids.push_back(text.record);
  };
  for (const std::size_t positive : group.texts) {
    add(texts_[positive], 1);
    for (std::int64_t i = 0; i < options_.itm_neg_size; ++i) {
      const bool hard = i < options_.itm_hard_neg;
      add(texts_[hard ? hard_negative(texts_[positive], random) : random_negative(group.video, random)], 0);
    }
  }
  batch.n_examples.push_back(static_cast<std::int64_t>(group.texts.size()) * (1 + options_.itm_neg_size));
  batch.video_names.push_back(videos_.name(group.video));
}

Batch RetrievalSet::batch(std::span<const std::int64_t> groups, std::int64_t epoch) const {
  const ClipOptions& clips = videos_.options().clips;
  Batch batch;
  batch.videos = static_cast<std::int64_t>(groups.size());
  batch.clips = clips.n_clips, batch.frames_per_clip = clips.num_frm;
  batch.height = batch.width = clips.max_img_size;
  batch.length = options_.max_txt_len;
  batch.frames.resize(groups.size() * clips.floats());
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const Group& used =
        load_video(groups[i], epoch, std::span(batch.frames).subspan(i * clips.floats(), clips.floats()));
    constexpr std::uint64_t texts_follow = ~std::uint64_t{0};  // no attempt has this number
    Random random{options_.seed, item_stream, static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(groups[i]),
                  texts_follow};
    add_examples(used, random, batch);
  }
  batch.texts = static_cast<std::int64_t>(batch.labels.size());
  return batch;
}

}  // namespace clipbert::data
