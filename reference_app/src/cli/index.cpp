#include "cli/index.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/flags.hpp"
#include "cli/picture.hpp"
#include "cli/table.hpp"
#include "config/errors.hpp"
#include "eval/digest.hpp"
#include "model/clipbert.hpp"

namespace fs = std::filesystem;

namespace clipbert::cli {
namespace {

/// What the features depend on besides the weights, in words that a message can hold.
std::string settings_line(const config::Config& c) {
  const auto clips = scoring_clips(c);
  nlohmann::ordered_json all{{"inference_n_clips", clips.n_clips},
                             {"num_frm", clips.num_frm},
                             {"fps", clips.fps},
                             {"frm_sampling_strategy", c.frm_sampling_strategy},
                             {"max_img_size", clips.max_img_size}};
  for (const auto value : clips.normalisation.mean) all["img_pixel_mean"].push_back(value);
  for (const auto value : clips.normalisation.std) all["img_pixel_std"].push_back(value);
  if (*c.opt_level == "O1") all["opt_level"] = "O1 " + *c.amp_dtype;  // other levels show in the weights
  return all.dump();
}

/// The middle picture of a video as the model saw it, without the padding at the right and below.
std::string thumbnail(const eval::VideoClips& video, const data::Normalisation& normalisation) {
  constexpr int longest = 240;  // pixels
  const auto width = video.width, height = video.height, plane = width * height;
  const float* frame = video.frames.data() + video.clips * video.frames_per_clip / 2 * 3 * plane;
  const auto value = [&](std::int64_t channel, std::int64_t y, std::int64_t x) {
    const auto at = static_cast<std::size_t>(channel);
    return frame[channel * plane + y * width + x] * normalisation.std[at] + normalisation.mean[at];
  };
  std::int64_t right = 0, below = 0;
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      if (std::max({value(0, y, x), value(1, y, x), value(2, y, x)}) > 0.5F)
        right = std::max(right, x + 1), below = std::max(below, y + 1);
    }
  }
  if (right == 0) right = width, below = height;  // black all over
  std::vector<std::uint8_t> rgb;
  for (std::int64_t y = 0; y < below; ++y)
    for (std::int64_t x = 0; x < right; ++x)
      for (std::int64_t channel = 0; channel < 3; ++channel)
        rgb.push_back(static_cast<std::uint8_t>(std::clamp(std::lround(value(channel, y, x)), 0L, 255L)));
  try {
    return jpeg(rgb, static_cast<int>(right), static_cast<int>(below), longest);
  } catch (const std::exception&) {
    return {};  // the page shows a grey field
  }
}

eval::FileStamp stamp_of(const std::optional<data::VideoSource>& source) {
  if (!source) return {};
  if (source->in_memory()) return {.bytes = source->bytes().size(), .modified = 0};
  std::error_code error;
  const auto bytes = fs::file_size(source->file(), error);
  const auto modified = fs::last_write_time(source->file(), error).time_since_epoch().count();
  return error ? eval::FileStamp{} : eval::FileStamp{bytes, static_cast<std::int64_t>(modified)};
}

std::string damage_of(const data::VideoSet& videos, const std::string& name) {
  for (const auto& note : videos.damaged())
    if (note.clip == name) return note.reason;
  return {};
}

/// The index that stands in the place already, if it can serve: same model, same settings, files with a time.
std::unique_ptr<const eval::FeatureIndex> earlier(const fs::path& place, const eval::IndexOrigin& origin,
                                                  const data::ClipFolder& folder) {
  std::error_code error;
  if (folder.is_lmdb() || !fs::exists(place, error)) return nullptr;
  try {
    auto old = std::make_unique<const eval::FeatureIndex>(place);
    const auto& from = old->origin();
    if (from.model == origin.model && from.settings == origin.settings && from.folder == origin.folder) return old;
  } catch (const content_error& e) {
    std::cerr << "replaced: " << e.what() << '\n';
  }
  return nullptr;
}

/// Counts of an index that was made.
struct Made {
  std::size_t videos = 0, kept = 0, skipped = 0;
};

Made make_index(TrainedModel& trained, const data::ClipFolder& folder, const std::string& out) {
  const auto origin = origin_of(trained, folder.folder());
  const auto old = earlier(out, origin, folder);
  Listing files = videos_in(folder);
  eval::IndexWriter writer(out, origin);
  Made made;
  std::vector<std::string> fresh;
  for (const auto& name : files.names) {
    auto entry = old == nullptr ? std::nullopt : old->find(name, stamp_of(folder.find(name)));
    if (!entry) {
      fresh.push_back(name);
      continue;
    }
    writer.add(*entry);
    ++made.kept;
  }
  Condition condition;
  if (!fresh.empty()) {
    const auto videos = open_videos(trained, folder, fresh);
    const auto& normalisation = videos->options().clips.normalisation;
    condition =
        encode_videos(trained, videos, [&](std::int64_t video, const eval::VideoClips& clips, const at::Tensor& grid) {
          const auto place = static_cast<std::size_t>(video);
          const auto& name = videos->name(place);
          writer.add({.name = name,
                      .stamp = stamp_of(videos->source(place)),
                      .damage = damage_of(*videos, name),
                      .grid = grid,
                      .picture = thumbnail(clips, normalisation)});
          ++made.videos;
        });
  }
  made.videos += made.kept;
  std::ranges::move(files.refused, std::back_inserter(condition.unreadable));
  report(condition);
  made.skipped = condition.unreadable.size();
  eval::expect_readable(condition.unreadable, static_cast<std::int64_t>(made.videos + made.skipped));
  writer.commit(condition.unreadable);
  return made;
}

}  // namespace

eval::IndexOrigin origin_of(const TrainedModel& trained, const fs::path& folder) {
  return {.model = eval::digest_of(*trained.model),
          .settings = settings_line(trained.settings.config),
          .n_clips = trained.settings.config.inference_n_clips,
          .weights = trained.file.string(),
          .folder = folder.empty() ? std::string() : fs::absolute(folder).lexically_normal().string()};
}

void expect_origin(const eval::FeatureIndex& index, const TrainedModel& trained, const std::string& file) {
  const auto mine = origin_of(trained, "");
  const auto& its = index.origin();
  if (its.model != mine.model) {
    throw content_error(file + ": was made with other weights or another precision (" + its.weights +
                        ") than those of this search (" + mine.weights +
                        "); name its weights with --inference_model_step or --checkpoint, or make it again with "
                        "`clipbert index`");
  }
  if (its.settings != mine.settings) {
    throw content_error(file + ": was made with other settings (" + its.settings + ") than those of this search (" +
                        mine.settings + "); search with the same, or make it again with `clipbert index`");
  }
}

int index(const Words& words) {
  CLI::App app(
      "Decodes and encodes each video of a folder once into one file; `clipbert search --index FILE` then answers "
      "without the videos. Run again with the same --out, it encodes only new and changed files",
      "index");
  ModelFlags flags;
  std::string videos, out;
  flags.add_to(app);
  app.add_option("--videos", videos, "folder of video files, or an LMDB; folders inside it are passed over")
      ->required();
  app.add_option("--out", out, "the index to write; one that exists is replaced once the new one is whole")
      ->required()
      ->type_name("FILE");
  if (!parse_flags(app, words)) return done;
  expect_folder(videos, "index", "videos");
  expect_place(out, "index", "out");
  auto trained = open_model(flags, "index");
  const auto made = make_index(trained, data::ClipFolder(videos), out);
  std::cout << made.videos << " videos in " << out << " (" << megabytes(static_cast<std::int64_t>(fs::file_size(out)))
            << ")";
  if (made.kept > 0) std::cout << ", " << made.kept << " of them as they were";
  if (made.skipped > 0) std::cout << "; " << made.skipped << " skipped";
  std::cout << '\n';
  return done;
}

}  // namespace clipbert::cli
