/// Writes H.264 videos through libav's x264. Private to this folder, used by the demo data and by tests.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/video.hpp"

namespace clipbert::data {

struct H264Options {
  std::string container = "mp4";  ///< name of a libav muxer
  int fps = 8;
  int crf = 20;           ///< x264's quality, lower is better
  int key_interval = 16;  ///< frames between key frames at most
  int b_frames = 0;
  int rotation = 0;     ///< of the display matrix: degrees clockwise
  bool mirror = false;  ///< of the display matrix, before the rotation
  bool full_range = false;
  bool bt709 = false;  ///< else BT.601, tagged either way
};

/// Encodes the frames, all of one even size, with one thread: the same input gives the same bytes.
/// Writes beside `file`, then renames.
/// throws  content_error if libav has no x264, or the file cannot be written
void write_h264(const std::filesystem::path& file, const std::vector<Frame>& frames, const H264Options& options = {});

}  // namespace clipbert::data
