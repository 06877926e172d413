#include "data/video.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "app/cases/manifest.hpp"
#include "app/data/support.hpp"
#include "config/errors.hpp"
#include "data/image.hpp"

namespace data = clipbert::data;
using nlohmann::json;
using test_support::Case;

namespace {

/// Mean of a rectangle given in shares of the picture, per channel.
std::array<double, 3> mean_of(const data::Frame& frame, double left, double right, double top, double bottom) {
  std::array<double, 3> sum{};
  double count = 0;
  for (int y = static_cast<int>(std::ceil(top * frame.height)); y < static_cast<int>(bottom * frame.height); ++y) {
    for (int x = static_cast<int>(std::ceil(left * frame.width)); x < static_cast<int>(right * frame.width);
         ++x, ++count) {
      const auto at =
          (static_cast<std::size_t>(y) * static_cast<std::size_t>(frame.width) + static_cast<std::size_t>(x)) * 3;
      for (std::size_t c = 0; c < 3; ++c) sum[c] += frame.rgb[at + c];
    }
  }
  for (double& value : sum) value /= count;
  return sum;
}

/// The number that the ten bars at the bottom of the test pattern spell.
int code_of(const data::Frame& frame) {
  int code = 0;
  for (int bar = 0; bar < 10; ++bar) {
    const auto mean = mean_of(frame, (bar + 0.25) / 10, (bar + 0.75) / 10, 0.75 + 0.25 / 3, 0.75 + 0.25 * 0.75);
    if ((mean[0] + mean[1] + mean[2]) / 3 > 125) code |= 1 << bar;
  }
  return code;
}

void check_patches(const data::Frame& frame, const json& colours, double tolerance) {
  for (std::size_t i = 0; i < colours.size(); ++i) {
    const double patch = static_cast<double>(i);
    const auto mean = mean_of(frame, (patch + 0.25) / 6, (patch + 0.75) / 6, 0.5 + 0.25 * 0.25, 0.5 + 0.25 * 0.75);
    for (std::size_t c = 0; c < 3; ++c) CHECK(std::fabs(mean[c] - colours[i][c].get<double>()) <= tolerance);
  }
}

int largest_colour(const data::Frame& frame) {
  int worst = 0;
  for (std::size_t i = 0; i < frame.rgb.size(); i += 3) {
    const auto [low, high] = std::minmax({frame.rgb[i], frame.rgb[i + 1], frame.rgb[i + 2]});
    worst = std::max(worst, high - low);
  }
  return worst;
}

void check_info(const data::VideoInfo& info, const json& expected, double pts_tolerance) {
  CHECK(info.stream_index == expected["stream_index"].get<int>());
  if (!expected["coded_size"].is_null()) CHECK(json{info.coded_width, info.coded_height} == expected["coded_size"]);
  if (!expected["display_size"].is_null()) CHECK(json{info.width, info.height} == expected["display_size"]);
  CHECK(info.rotation == expected["rotation"].get<int>());
  CHECK(info.mirror == expected["mirror"].get<bool>());
  const auto frames = static_cast<std::int64_t>(info.frames());
  if (!expected["frames_decoded"].is_null()) CHECK(frames == expected["frames_decoded"].get<std::int64_t>());
  if (const json& range = expected["frames_decoded_range"]; !range.is_null()) {
    CHECK((frames >= range[0].get<std::int64_t>() && frames <= range[1].get<std::int64_t>()));
  }
  CHECK(info.decode_errors == expected["decode_errors"].get<std::int64_t>());
  if (!expected["sizes_seen"].is_null()) CHECK(json(info.sizes_seen) == expected["sizes_seen"]);
  const json& pts = expected["pts_s"];
  if (pts.is_null()) return;
  REQUIRE(pts.size() == info.frames());
  for (std::size_t i = 0; i < pts.size(); ++i) {
    CHECK(std::fabs(info.seconds(i) - (pts[i].get<double>() - pts[0].get<double>())) <= pts_tolerance);
  }
}

/// A reader asked for some frames gives those of the linear pass, byte for byte, whatever it may hold.
void check_some_frames(const Case& one, const data::DecodedVideo& all) {
  const std::size_t last = all.frames.size() - 1;
  for (const std::size_t keep : {std::size_t{0}, data::VideoOptions{}.keep_bytes}) {
    data::VideoOptions options;
    options.keep_bytes = keep;
    data::Video video(one.file, options);
    REQUIRE(video.info().pts == all.info.pts);
    CHECK(video.info().average_fps == all.info.average_fps);
    CHECK(video.info().duration == all.info.duration);
    CHECK((video.info().width == all.info.width && video.info().height == all.info.height));
    for (const std::vector<std::size_t>& wanted :
         {std::vector<std::size_t>{last, last / 2, 0, last / 2}, std::vector<std::size_t>{last / 3}}) {
      const auto frames = video.frames(wanted);
      REQUIRE(frames.size() == wanted.size());
      for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(frames[i].rgb == all.frames[wanted[i]].rgb);
    }
  }
}

void check_frames(const Case& one, const data::DecodedVideo& video, const json& manifest) {
  const json& expected = one.expected();
  const json& codes = expected["frame_codes"];
  if (!codes.is_null()) REQUIRE(codes.size() == video.frames.size());
  for (std::size_t i = 0; i < video.frames.size(); ++i) {
    const data::Frame& frame = video.frames[i];
    CAPTURE(i);
    REQUIRE((frame.width == video.info.width && frame.height == video.info.height));
    REQUIRE(frame.rgb.size() == static_cast<std::size_t>(frame.width) * static_cast<std::size_t>(frame.height) * 3);
    if (!codes.is_null()) CHECK(code_of(frame) == codes[i].get<int>());
    if (expected["grey"].get<bool>()) CHECK(largest_colour(frame) <= manifest["tolerances"]["grey"].get<int>());
    if (const auto patches = expected.find("patches_rgb_tolerance"); patches != expected.end() && !patches->is_null()) {
      check_patches(frame, manifest["frame_pattern"]["patch_rgb"], patches->get<double>());
    }
  }
  if (const json& word = expected["dataset_refuses"]; !word.is_null()) {
    const bool refused = data::too_elongated({video.info.height, video.info.width});
    CHECK((word == "aspect" && refused));
  }
  check_some_frames(one, video);
}

/// Frames that were decoded alone equal those of the linear pass in a damaged file too, where both find the same
/// frames.
void check_overwritten(const Case& one, const std::filesystem::path& copy) {
  const std::string whole = test_support::file_bytes(one.file);
  for (std::size_t seed = 1; seed <= 3 && whole.size() > 100 && whole.size() < 100000; ++seed) {
    std::string hurt = whole;
    for (std::size_t i = 0; i < 3 * seed; ++i)
      hurt[(seed * 7919 + i * 104729) % hurt.size()] ^= static_cast<char>(seed + 90);
    std::ofstream(copy, std::ios::binary) << hurt;
    CAPTURE(seed);
    try {
      const data::DecodedVideo all = data::decode_all(copy);
      data::Video video(copy);
      const std::size_t last = all.frames.size() - 1;
      for (const std::size_t i : {last, last * 3 / 4, last / 2, last / 4, std::size_t{0}}) {
        if (video.info().pts != all.info.pts) break;
        CHECK(video.frame(i).rgb == all.frames[i].rgb);
      }
    } catch (const clipbert::content_error& error) {
      CHECK(std::string(error.what()).find(copy.string()) != std::string::npos);
    }
  }
}

void check_kind(const std::string& kind) {
  const json manifest = test_support::manifest();
  for (const Case& one : test_support::cases_of(kind)) {
    CAPTURE(one.name);
    try {
      const data::DecodedVideo video = data::decode_all(one.file);
      const std::string damage = one.file.string() + ": damaged: " + video.info.first_error;
      test_support::check_outcome(one, video.info.damaged() ? "warn" : "ok", damage);
      check_info(video.info, one.expected(), manifest["tolerances"]["pts_s"]);
      check_frames(one, video, manifest);
    } catch (const clipbert::content_error& error) {
      const json& codec = one.expected()["needs_codec"];
      if (!codec.is_null() && test_support::mentions(error.what(), codec.get<std::string>(), one.file)) continue;
      test_support::check_outcome(one, "error", error.what());
    }
  }
}

}  // namespace

TEST_SUITE("cases/video") {
  TEST_CASE("each video of the manifest comes out as it says") { check_kind("video"); }
  TEST_CASE("B86 a damaged video gives the same bytes however its frames are asked for") {
    const test_support::TempFolder folder;
    for (const char* kind : {"video", "real_video"}) {
      for (const Case& one : test_support::cases_of(kind)) {
        CAPTURE(one.name);
        check_overwritten(one, folder.path() / "hurt");
      }
    }
  }
  TEST_CASE("each third-party clip of the manifest comes out as it says") { check_kind("real_video"); }
}
