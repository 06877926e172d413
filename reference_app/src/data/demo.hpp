/// A small data set of real H.264 videos with captions, made from nothing.
#pragma once
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/random.hpp"
#include "data/video.hpp"

namespace clipbert::data {

/// What one demo video shows: its caption says just this.
struct DemoObject {
  int size = 0, colour = 0, shape = 0;
  [[nodiscard]] std::string caption() const;  ///< "a small red circle"
};

struct DemoOptions {
  int videos = 1000;  ///< for training, spread evenly over all captions
  int gallery = 48;   ///< one video per caption: at most 2 sizes * 8 colours * shapes
  int val = 48;       ///< likewise, spread evenly
  int shapes = 3;     ///< of circle, triangle, bar, cross, star, ring
  std::uint64_t seed = 42;
  int threads = 2;
  std::function<void(int done, int all)> progress = {};  ///< from any thread, one at a time
  const std::atomic<bool>* stop = nullptr;               ///< ends early; what is there stays for the next run
};

/// Where everything lies.
struct DemoData {
  std::filesystem::path videos;                                  ///< folder of the training and validation videos
  std::filesystem::path gallery_videos;                          ///< folder of the unseen videos
  std::filesystem::path train, val, gallery, vocabulary_folder;  ///< three caption files; the folder of vocab.txt
  std::int64_t vocabulary_size = 0;
  int made = 0;  ///< videos made now; the others were there
  int all = 0;
};

/// Renders and encodes the videos (128 x 128, 8 frames a second, 2 seconds); writes the caption files and vocab.txt.
/// The same options give the same bytes. A file is written beside its place, then renamed; a run that was cut, or is
/// repeated, goes on from what is there.
/// throws  usage_error for options that make no set, or where the folder holds a set made with others;
///         content_error if a file cannot be written
DemoData make_demo_data(const std::filesystem::path& output_dir, const DemoOptions& options);

inline constexpr int demo_side = 128, demo_fps = 8, demo_frames = 16;
inline constexpr int demo_sizes = 2, demo_colours = 8, demo_shapes = 6;

/// The frames of one demo video: on a dark background the object drifts and turns, shown for half of the time from a
/// random start (past the end it goes on at the beginning), so that any one frame shows it in half of the videos.
[[nodiscard]] std::vector<Frame> render_demo_video(const DemoObject& object, Random random);

}  // namespace clipbert::data
