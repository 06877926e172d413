#include "data/sampler.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "config/errors.hpp"

namespace clipbert::data {
namespace {

constexpr std::array<std::string_view, 5> strategy_names = {"rand", "uniform", "start", "middle", "end"};

/// Where a clip lies: a random place, the whole video, or number `index` of `count`.
struct Place {
  enum class Kind { random, whole, indexed } kind = Kind::indexed;
  std::int64_t index = 0, count = 1;
};

Place place_of(const ClipRequest& request) {
  if (request.clips) return {Place::Kind::indexed, request.clip, *request.clips};
  switch (request.strategy) {
    case Strategy::rand:
      return {Place::Kind::random};
    case Strategy::uniform:
      return {Place::Kind::whole};
    case Strategy::start:
      return {Place::Kind::indexed, 0, 3};
    case Strategy::middle:
      return {Place::Kind::indexed, 1, 3};
    case Strategy::end:
      return {Place::Kind::indexed, 2, 3};
  }
  return {};
}

/// First and last position of a clip of `size` frames among `frames`.
std::pair<double, double> window(double frames, double size, const Place& place, const std::function<double()>& draw) {
  if (place.kind == Place::Kind::whole) return {0.0, frames - 1};
  const double slack = std::max(frames - size, 0.0);
  const double start = place.kind == Place::Kind::random
                           ? slack * draw()
                           : slack * static_cast<double>(place.index) / static_cast<double>(place.count);
  return {start, start + size - 1};
}

struct Span {
  std::vector<std::size_t> indices;  // by time stamp, the last of equal ones
  std::int64_t last = 0;             // largest time stamp met
};

/// Frames shown from `low` through the first one beyond `high`.
Span span_of(std::span<const std::int64_t> pts, std::int64_t low, std::int64_t high) {
  std::map<std::int64_t, std::size_t> shown;
  Span result;
  for (std::size_t i = 0; i < pts.size(); ++i) {
    result.last = std::max(result.last, pts[i]);
    if (pts[i] < low) continue;
    shown[pts[i]] = i;
    if (pts[i] > high) break;
  }
  for (const auto& [stamp, index] : shown) result.indices.push_back(index);
  return result;
}

/// torch.linspace(low, high, count) in float, clamped to [0, last] and cut to integers.
std::vector<std::size_t> positions(double low, double high, std::int64_t count, std::size_t last) {
  const auto first = static_cast<float>(low), final = static_cast<float>(high);
  const float step = count > 1 ? (final - first) / static_cast<float>(count - 1) : 0.0f;
  std::vector<std::size_t> result;
  for (std::int64_t i = 0; i < count; ++i) {
    const float at = count == 1 || i < count / 2 ? first + step * static_cast<float>(i)
                                                 : final - step * static_cast<float>(count - i - 1);
    result.push_back(static_cast<std::size_t>(std::clamp(at, 0.0f, static_cast<float>(last))));
  }
  return result;
}

/// A time in ticks, cut to an integer; a rate or length beyond all measure ends at the last tick there can be.
std::int64_t ticks(double value) { return static_cast<std::int64_t>(std::clamp(value, 0.0, 0x1p62)); }

/// The duration to count with: a header that claims far more than what is shown is not believed.
std::int64_t trusted_duration(const TimeLine& line, const ClipRequest& request) {
  constexpr auto no_end = std::numeric_limits<std::int64_t>::max();
  if (!request.safeguard || !request.clips) return *line.duration;
  if (request.max_pts && *request.max_pts != 0) return *request.max_pts;
  const std::int64_t last = span_of(line.pts, 0, no_end).last;
  return static_cast<double>(last) < 0.8 * static_cast<double>(*line.duration) ? last : *line.duration;
}

}  // namespace

Strategy strategy_of(std::string_view name) {
  const auto found = std::find(strategy_names.begin(), strategy_names.end(), name);
  if (found == strategy_names.end()) {
    throw usage_error("frm_sampling_strategy: " + std::string(name) + " is none of rand, uniform, start, middle, end");
  }
  return static_cast<Strategy>(found - strategy_names.begin());
}

PickedFrames pick_frames(const TimeLine& line, const ClipRequest& request, const std::function<double()>& draw) {
  const Place place = place_of(request);
  constexpr double longest = 1e12;  // frames; keeps a rate beyond measure finite in float
  const double size = std::min(static_cast<double>(request.num_frm) / request.target_fps * line.average_fps, longest);
  PickedFrames result;
  Span span;
  Place inside = place;  // where the clip lies among the frames of the span
  if (line.duration) {
    const std::int64_t length = trusted_duration(line, request);
    result.max_pts = length;
    const auto frames = static_cast<double>(line.frames);
    const auto [low, high] = window(frames, size, place, draw);
    const double tick = static_cast<double>(length) / frames;
    span = span_of(line.pts, ticks(low * tick), ticks(high * tick));
    if (place.kind != Place::Kind::whole) inside = {Place::Kind::indexed, 0, 1};
  } else {
    span = span_of(line.pts, 0, std::numeric_limits<std::int64_t>::max());
  }
  if (span.indices.empty()) return result;
  const auto [low, high] = window(static_cast<double>(span.indices.size()), size, inside, draw);
  for (const std::size_t at : positions(low, high, request.num_frm, span.indices.size() - 1)) {
    result.indices.push_back(span.indices[at]);
  }
  return result;
}

}  // namespace clipbert::data
