#include "data/demo.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string_view>
#include <thread>
#include <utility>

#include "config/errors.hpp"
#include "data/tokenizer.hpp"
#include "data/video_writer.hpp"
#include "io/atomic_file.hpp"

namespace clipbert::data {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, demo_sizes> size_names = {"small", "large"};
constexpr std::array<std::string_view, demo_shapes> shape_names = {"circle", "triangle", "bar",
                                                                   "cross",  "star",     "ring"};
struct Colour {
  std::string_view name;
  std::array<double, 3> rgb;
};
constexpr std::array<Colour, demo_colours> colours = {{{"red", {225, 40, 40}},
                                                       {"green", {40, 190, 60}},
                                                       {"blue", {60, 90, 240}},
                                                       {"yellow", {240, 225, 50}},
                                                       {"orange", {245, 140, 30}},
                                                       {"purple", {160, 60, 210}},
                                                       {"cyan", {60, 215, 225}},
                                                       {"white", {240, 240, 240}}}};

struct Point {
  double x = 0, y = 0;
};
double length(Point p) { return std::hypot(p.x, p.y); }

/// Distance from a point to the edge of a polygon, below 0 inside.
double polygon_distance(Point p, const std::vector<Point>& corners) {
  double nearest = 1e9;
  bool inside = false;
  for (std::size_t i = 0, j = corners.size() - 1; i < corners.size(); j = i++) {
    const Point a = corners[j], b = corners[i], edge{b.x - a.x, b.y - a.y}, to{p.x - a.x, p.y - a.y};
    const double along = std::clamp((to.x * edge.x + to.y * edge.y) / (edge.x * edge.x + edge.y * edge.y), 0.0, 1.0);
    nearest = std::min(nearest, length({to.x - edge.x * along, to.y - edge.y * along}));
    if ((a.y > p.y) != (b.y > p.y) && p.x < edge.x * (p.y - a.y) / edge.y + a.x) inside = !inside;
  }
  return inside ? -nearest : nearest;
}

/// Corners on one circle, or alternately on two (a star).
std::vector<Point> corners_of(int count, double outer, double inner) {
  std::vector<Point> result;
  for (int i = 0; i < count; ++i) {
    const double angle = 2 * std::numbers::pi * i / count, radius = i % 2 == 0 ? outer : inner;
    result.push_back({radius * std::sin(angle), -radius * std::cos(angle)});
  }
  return result;
}

/// Distance from a point to the edge of a shape whose half extent is about `radius`, below 0 inside.
double shape_distance(int shape, Point p, double radius) {
  switch (shape) {
    case 0:
      return length(p) - radius;
    case 1:
      return polygon_distance(p, corners_of(3, 1.25 * radius, 1.25 * radius));
    case 2:
      return std::max(std::fabs(p.x) - 1.25 * radius, std::fabs(p.y) - 0.32 * radius);
    case 3: {  // two crossed bars
      const double arm = 1.1 * radius, half = 0.33 * radius, x = std::fabs(p.x), y = std::fabs(p.y);
      return std::min(std::max(x - arm, y - half), std::max(x - half, y - arm));
    }
    case 4:
      return polygon_distance(p, corners_of(10, 1.25 * radius, 0.55 * radius));
    default:
      return std::fabs(length(p) - 0.8 * radius) - 0.25 * radius;
  }
}

/// How one video moves, drawn once.
struct Motion {
  Point centre, velocity;
  double radius, angle, spin, brightness;
  int start;  ///< first frame that shows the object; the shown half goes on at the beginning
  std::array<double, 3> background, slope;

  Motion(const DemoObject& object, Random& random) {
    radius = object.size == 0 ? random.uniform(15, 18) : random.uniform(30, 35);
    const double margin = 1.3 * radius + 2, heading = random.uniform(0, 2 * std::numbers::pi),
                 speed = random.uniform(1.0, 3.0);
    centre = {random.uniform(margin, demo_side - margin), random.uniform(margin, demo_side - margin)};
    velocity = {speed * std::cos(heading), speed * std::sin(heading)};
    angle = random.uniform(0, 2 * std::numbers::pi);
    spin = random.uniform(-0.25, 0.25);
    brightness = random.uniform(0.88, 1.0);
    start = static_cast<int>(random.below(demo_frames));
    for (double& value : background) value = random.uniform(8, 40);
    for (double& value : slope) value = random.uniform(-12, 12);
  }
  [[nodiscard]] bool shown(int frame) const { return (frame - start + demo_frames) % demo_frames < demo_frames / 2; }
  /// Where the object is: it bounces off the borders, so that all of it stays in the picture.
  [[nodiscard]] Point at(int frame) const {
    const double margin = 1.3 * radius + 2, range = demo_side - 2 * margin;
    const auto bounce = [&](double value) {
      const double folded = std::fmod(std::fabs(value - margin), 2 * range);
      return margin + (folded > range ? 2 * range - folded : folded);
    };
    return {bounce(centre.x + velocity.x * frame), bounce(centre.y + velocity.y * frame)};
  }
};

Frame render(const DemoObject& object, const Motion& motion, int number) {
  Frame frame{demo_side, demo_side, static_cast<double>(number) / demo_fps, {}};
  frame.rgb.reserve(std::size_t{demo_side} * demo_side * 3);
  const Point centre = motion.at(number);
  const double turn = motion.angle + motion.spin * number, cosine = std::cos(turn), sine = std::sin(turn);
  const auto& colour = colours[static_cast<std::size_t>(object.colour)].rgb;
  for (int y = 0; y < demo_side; ++y) {
    for (int x = 0; x < demo_side; ++x) {
      const Point from{x + 0.5 - centre.x, y + 0.5 - centre.y};
      double cover = 0;
      if (motion.shown(number) && length(from) < 1.5 * motion.radius) {
        const Point own{cosine * from.x + sine * from.y, -sine * from.x + cosine * from.y};
        cover = std::clamp(0.5 - shape_distance(object.shape, own, motion.radius), 0.0, 1.0);
      }
      for (std::size_t c = 0; c < 3; ++c) {
        const double behind =
            std::clamp(motion.background[c] + motion.slope[c] * (y - demo_side / 2) / demo_side, 0.0, 60.0);
        frame.rgb.push_back(
            static_cast<std::uint8_t>(std::lround(cover * colour[c] * motion.brightness + (1 - cover) * behind)));
      }
    }
  }
  return frame;
}

struct Job {
  DemoObject object;
  fs::path file;
  std::uint64_t split = 0, number = 0;
};

std::vector<DemoObject> all_objects(int shapes) {
  std::vector<DemoObject> objects;
  for (int size = 0; size < demo_sizes; ++size) {
    for (int colour = 0; colour < demo_colours; ++colour) {
      for (int shape = 0; shape < shapes; ++shape) objects.push_back({size, colour, shape});
    }
  }
  return objects;
}

/// The videos of one split, every combination equally often, in a drawn order; writes its caption file.
void plan_split(const std::string& split, std::uint64_t split_number, int count, const fs::path& folder,
                const fs::path& captions, const DemoOptions& options, std::vector<Job>& jobs) {
  std::string lines;
  std::vector<DemoObject> round;
  for (int i = 0; i < count; ++i) {
    const auto number = static_cast<std::uint64_t>(i);
    if (round.empty()) {
      round = all_objects(options.shapes);
      Random{options.seed, split_number, number, 0x6F72646572}.shuffle(round);
    }
    char name[32];
    std::snprintf(name, sizeof name, "%s_%04d", split.c_str(), i);
    jobs.push_back({round.back(), folder / (std::string(name) + ".mp4"), split_number, number});
    lines += nlohmann::json{{"caption", round.back().caption()}, {"clip_name", name}, {"sen_id", i}}.dump() + "\n";
    round.pop_back();
  }
  io::write_atomically(captions, lines);
}

/// Special tokens, the captions' words, then letters, digits and marks, so that any query has pieces.
std::string vocabulary_text() {
  std::string text;
  const auto add = [&](std::string_view token) { text.append(token).push_back('\n'); };
  for (const std::string_view token : Vocabulary::special_tokens) add(token);
  for (const std::string_view word : size_names) add(word);
  for (const Colour& colour : colours) add(colour.name);
  for (const std::string_view word : shape_names) add(word);
  for (const char* prefix : {"", "##"}) {
    for (char c = 'a'; c <= 'z'; ++c) add(std::string(prefix) + c);
    for (char c = '0'; c <= '9'; ++c) add(std::string(prefix) + c);
  }
  for (const char c : std::string_view("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")) add(std::string(1, c));
  return text;
}

void check_options(const DemoOptions& options) {
  if (options.shapes < 1 || options.shapes > demo_shapes) {
    throw usage_error("demo-data: shapes is " + std::to_string(options.shapes) + ": 1 to " +
                      std::to_string(demo_shapes));
  }
  const int captions = demo_sizes * demo_colours * options.shapes;
  if (options.gallery > captions) {
    throw usage_error("demo-data: gallery is " + std::to_string(options.gallery) + ", but there are only " +
                      std::to_string(captions) + " captions; ask for fewer, or more shapes");
  }
  if (options.videos < 1 || options.gallery < 0 || options.val < 0) {
    throw usage_error("demo-data: at least one training video, and no negative number of others");
  }
}

/// The set's own description, by which a later run knows it.
void claim_folder(const fs::path& folder, const DemoOptions& options) {
  const nlohmann::json ours = {{"form", 1},          {"videos", options.videos}, {"gallery", options.gallery},
                               {"val", options.val}, {"shapes", options.shapes}, {"seed", options.seed}};
  const fs::path file = folder / "demo.json";
  if (fs::exists(file)) {
    std::ifstream in(file);
    const auto theirs = nlohmann::json::parse(in, nullptr, false);
    if (theirs != ours) {
      throw usage_error(file.string() + ": the folder holds a set made with other options (" + theirs.dump() +
                        "); choose another output_dir or delete it");
    }
    return;
  }
  fs::create_directories(folder);
  io::write_atomically(file, ours.dump() + "\n");
}

int make_videos(const std::vector<Job>& jobs, const DemoOptions& options) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  int done = 0, made = 0;
  H264Options h264;
  h264.fps = demo_fps;
  const auto work = [&] {
    for (std::size_t i = next++; i < jobs.size(); i = next++) {
      if (options.stop != nullptr && *options.stop) return;
      try {
        const bool there = fs::exists(jobs[i].file);
        if (!there) {
          write_h264(jobs[i].file, render_demo_video(jobs[i].object, {options.seed, jobs[i].split, jobs[i].number}),
                     h264);
        }
        const std::scoped_lock lock(mutex);
        made += there ? 0 : 1;
        if (options.progress) options.progress(++done, static_cast<int>(jobs.size()));
      } catch (...) {
        const std::scoped_lock lock(mutex);
        error = std::current_exception();
        next = jobs.size();
      }
    }
  };
  {
    std::vector<std::jthread> pool;
    for (int i = 1; i < std::min(options.threads, static_cast<int>(jobs.size())); ++i) pool.emplace_back(work);
    work();
  }
  if (error) std::rethrow_exception(error);
  return made;
}

}  // namespace

std::string DemoObject::caption() const {
  std::string text = "a ";
  text.append(size_names[static_cast<std::size_t>(size)]).append(" ");
  text.append(colours[static_cast<std::size_t>(colour)].name).append(" ");
  return text.append(shape_names[static_cast<std::size_t>(shape)]);
}

std::vector<Frame> render_demo_video(const DemoObject& object, Random random) {
  const Motion motion(object, random);
  std::vector<Frame> frames;
  for (int i = 0; i < demo_frames; ++i) frames.push_back(render(object, motion, i));
  return frames;
}

DemoData make_demo_data(const fs::path& output_dir, const DemoOptions& options) {
  check_options(options);
  claim_folder(output_dir, options);
  DemoData data;
  data.videos = output_dir / "videos", data.gallery_videos = output_dir / "gallery";
  data.train = output_dir / "train.jsonl", data.val = output_dir / "val.jsonl",
  data.gallery = output_dir / "gallery.jsonl";
  data.vocabulary_folder = output_dir;
  fs::create_directories(data.videos);
  fs::create_directories(data.gallery_videos);
  const std::string vocabulary = vocabulary_text();
  data.vocabulary_size = std::count(vocabulary.begin(), vocabulary.end(), '\n');
  io::write_atomically(output_dir / "vocab.txt", vocabulary);

  std::vector<Job> jobs;
  plan_split("train", 1, options.videos, data.videos, data.train, options, jobs);
  plan_split("val", 2, options.val, data.videos, data.val, options, jobs);
  plan_split("gallery", 3, options.gallery, data.gallery_videos, data.gallery, options, jobs);
  data.all = static_cast<int>(jobs.size());
  data.made = make_videos(jobs, options);
  return data;
}

}  // namespace clipbert::data
