#include "data/clips.hpp"

#include <numeric>
#include <sstream>
#include <utility>

#include "config/errors.hpp"

namespace clipbert::data {

ClipOptions for_evaluation(ClipOptions options) {
  if (options.strategy == Strategy::rand) options.strategy = Strategy::middle;
  options.by_strategy = options.n_clips == 1;
  return options;
}

std::vector<std::size_t> pick_clips(const VideoInfo& info, const ClipOptions& options, Random& random) {
  TimeLine line{info.pts, static_cast<std::int64_t>(info.frames()), info.duration, info.average_fps};
  ClipRequest request{.num_frm = options.num_frm, .target_fps = options.fps, .strategy = options.strategy};
  std::vector<std::size_t> indices;
  for (std::int64_t clip = 0; clip < options.n_clips; ++clip) {
    if (!options.by_strategy) {
      request.clips = options.n_clips;
      request.clip = clip;
      request.safeguard = options.n_clips > 1;
    }
    const auto draw = [&] { return random.uniform(); };
    PickedFrames picked = pick_frames(line, request, draw);
    if (picked.indices.empty()) {  // the header's duration leads past what is shown: pick by index
      line.duration.reset();
      picked = pick_frames(line, request, draw);
    }
    if (picked.indices.empty()) throw content_error("no frame has a usable time stamp");
    request.max_pts = picked.max_pts;
    indices.insert(indices.end(), picked.indices.begin(), picked.indices.end());
  }
  return indices;
}

VideoSet::VideoSet(std::vector<std::string> clips, const ClipFolder& folder, VideoSetOptions options)
    : clips_(std::move(clips)), options_(std::move(options)) {
  for (const std::string& clip : clips_) sources_.push_back(folder.find(clip));
  for (std::size_t i = 0; i < clips_.size(); ++i) {
    if (!sources_[i]) bad_.emplace(i, std::string("no such ") + folder.entry() + " in " + folder.folder().string());
  }
  if (const auto fault = too_many_bad(); !fault.empty()) throw content_error(fault);
  for (const auto& [video, reason] : bad_) {
    if (options_.warn) options_.warn("clip \"" + clips_[video] + "\" cannot be used: " + reason);
  }
}

std::shared_ptr<const DecodedVideo> VideoSet::cached(std::size_t video) const {
  const std::scoped_lock lock(mutex_);
  const auto found = cache_.find(video);
  return found == cache_.end() ? nullptr : found->second;
}

/// The frames of the video's clips, decoded or from the cache.
std::vector<Frame> VideoSet::read(std::size_t video, Random& random) const {
  std::vector<Frame> frames;
  if (const auto whole = cached(video)) {
    for (const std::size_t index : pick_clips(whole->info, options_.clips, random))
      frames.push_back(whole->frames[index]);
    return frames;
  }
  Video file(*sources_[video], {.stop = options_.stop});
  const VideoInfo info = file.info();
  if (too_elongated({info.height, info.width})) {
    throw content_error(sources_[video]->name() + ": aspect ratio of " + std::to_string(info.width) + "x" +
                        std::to_string(info.height) + " is over 5");
  }
  const Random before = random;
  std::vector<std::size_t> indices;
  const auto choose = [&](const VideoInfo& known) {
    random = before;
    return indices = pick_clips(known, options_.clips, random);
  };
  if (!fits_cache(video, info)) {
    frames = file.pick(choose);
  } else {
    auto whole = std::make_shared<DecodedVideo>();
    whole->frames = file.pick([&](const VideoInfo& known) {
      (void)choose(known);
      std::vector<std::size_t> all(known.frames());
      std::iota(all.begin(), all.end(), std::size_t{0});
      return all;
    });
    whole->info = file.info();
    for (const std::size_t index : indices) frames.push_back(whole->frames[index]);
    keep(video, std::move(whole));
  }
  if (!file.info().complaint.empty()) note_damage(video, file.info());
  return frames;
}

/// What all frames of a video take.
std::size_t VideoSet::cache_bytes(const VideoInfo& info) {
  return info.frames() * static_cast<std::size_t>(info.width) * static_cast<std::size_t>(info.height) * 3;
}

/// True where a whole set of such videos has room: converting frames that no clip has picked only pays if the next
/// epochs find them.
bool VideoSet::fits_cache(std::size_t video, const VideoInfo& info) const {
  const std::scoped_lock lock(mutex_);
  return cache_bytes(info) <= options_.cache_bytes / size() && !cache_.contains(video);
}

void VideoSet::keep(std::size_t video, std::shared_ptr<const DecodedVideo> whole) const {
  const std::size_t bytes = cache_bytes(whole->info);
  const std::scoped_lock lock(mutex_);
  if (cached_bytes_ + bytes > options_.cache_bytes) return;
  if (cache_.emplace(video, std::move(whole)).second) cached_bytes_ += bytes;  // else another thread was faster
}

void VideoSet::fill(std::size_t video, Random& random, std::span<float> out) const {
  const int side = options_.clips.max_img_size;
  const std::size_t area = static_cast<std::size_t>(side) * static_cast<std::size_t>(side);
  std::size_t at = 0;
  for (const Frame& frame : read(video, random)) {
    fit_and_pad(frame.rgb, {frame.height, frame.width}, side, out.subspan(at, 3 * area));
    at += 3 * area;
  }
  normalise(out, area, options_.clips.normalisation);
}

bool VideoSet::load(std::size_t video, Random& random, std::span<float> out) const {
  if (is_bad(video)) return false;
  try {
    fill(video, random, out);
    return true;
  } catch (const content_error& error) {
    if (options_.stop != nullptr && *options_.stop) throw;
    note_bad(video, error.what());
    return false;
  }
}

std::vector<float> VideoSet::frames(std::size_t video) const {
  if (!sources_.at(video)) throw content_error("clip \"" + clips_[video] + "\": it is not there");
  std::vector<float> out(options_.clips.floats());
  Random random{video};
  fill(video, random, out);
  return out;
}

void VideoSet::note_damage(std::size_t video, const VideoInfo& info) const {
  {
    const std::scoped_lock lock(mutex_);
    if (!damaged_.emplace(video, info.complaint).second) return;
  }
  if (options_.warn) {
    options_.warn(sources_[video]->name() + ": damaged (libav: " + info.complaint + "), its " +
                  std::to_string(info.frames()) + " readable frames are used");
  }
}

/// Why the set cannot be used, in one line; empty if it can.
std::string VideoSet::too_many_bad() const {
  if (static_cast<double>(bad_.size()) <= options_.max_bad_videos * static_cast<double>(clips_.size())) return {};
  constexpr std::size_t most_named = 20;
  std::ostringstream text;
  text << bad_.size() << " of " << clips_.size() << " videos cannot be used, more than max_bad_videos "
       << options_.max_bad_videos;
  std::size_t named = 0;
  for (const auto& [video, reason] : bad_) {
    if (named++ < most_named) text << "; clip \"" << clips_[video] << "\": " << reason;
  }
  if (named > most_named) text << "; and " << named - most_named << " more";
  return text.str();
}

void VideoSet::note_bad(std::size_t video, const std::string& reason) const {
  std::string fault;
  {
    const std::scoped_lock lock(mutex_);
    if (!bad_.emplace(video, reason).second) return;
    fault = too_many_bad();
  }
  if (!fault.empty()) throw content_error(fault);
  if (options_.warn) options_.warn("clip \"" + clips_[video] + "\" cannot be used: " + reason);
}

bool VideoSet::is_bad(std::size_t video) const {
  const std::scoped_lock lock(mutex_);
  return bad_.contains(video);
}

std::vector<ClipNote> VideoSet::bad() const {
  const std::scoped_lock lock(mutex_);
  std::vector<ClipNote> result;
  for (const auto& [video, reason] : bad_) result.push_back({clips_[video], reason});
  return result;
}

std::vector<ClipNote> VideoSet::damaged() const {
  const std::scoped_lock lock(mutex_);
  std::vector<ClipNote> result;
  for (const auto& [video, reason] : damaged_) result.push_back({clips_[video], reason});
  return result;
}

std::size_t VideoSet::cached_bytes() const {
  const std::scoped_lock lock(mutex_);
  return cached_bytes_;
}

}  // namespace clipbert::data
