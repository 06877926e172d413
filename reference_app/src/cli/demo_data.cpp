#include <CLI/CLI.hpp>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/flags.hpp"
#include "cli/frame.hpp"
#include "cli/run_folder.hpp"
#include "cli/signals.hpp"
#include "cli/table.hpp"
#include "data/demo.hpp"
#include "log/console.hpp"

namespace clipbert::cli {
namespace {

/// Ends the making when a signal comes: data takes a flag, not a function.
class StopWatcher {
 public:
  [[nodiscard]] const std::atomic<bool>* flag() const { return &stop_; }
  void look() { stop_ = StopSignals::requested(); }

 private:
  std::atomic<bool> stop_{false};
};

void show(int made, int all) {
  if (log::stderr_is_terminal()) {
    std::cerr << "\rvideos " << made << '/' << all << (made == all ? "\n" : "") << std::flush;
  } else if (made == all || (all >= 10 && made % (all / 10) == 0)) {
    std::cerr << "videos " << made << '/' << all << std::endl;
  }
}

}  // namespace

int demo_data(const Words& words) {
  CLI::App app("Writes a small data set of real H.264 .mp4 files with captions: train, val and an unseen gallery",
               "demo-data");
  std::string folder;
  data::DemoOptions options;
  options.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  bool json = false;
  app.add_option("--output_dir", folder, "folder to write into; what is there already is kept")->required();
  const auto count = [&](const char* name, auto& value, const char* help, std::int64_t least, std::int64_t most) {
    app.add_option(name, value, help)->check(whole_number(least, most))->capture_default_str();
  };
  constexpr std::int64_t most_videos = 1'000'000;
  count("--videos", options.videos, "count of training videos", 1, most_videos);
  count("--gallery", options.gallery, "count of unseen videos, one caption each", 0, most_videos);
  count("--val", options.val, "count of validation videos", 0, most_videos);
  count("--shapes", options.shapes, "count of shapes, up to 6", 1, 6);
  count("--seed", options.seed, "seed of all that is random", 0, std::numeric_limits<std::int64_t>::max());
  count("--threads", options.threads, "threads that render and encode", 1, 1024);
  app.add_flag("--json", json, "print JSON");
  if (!parse_flags(app, words)) return done;
  const RunLock lock(folder);

  const StopSignals signals;
  StopWatcher watcher;
  options.stop = watcher.flag();
  options.progress = [&](int made, int all) { watcher.look(), show(made, all); };
  const data::DemoData made = data::make_demo_data(folder, options);
  if (StopSignals::requested()) {
    std::cerr << "clipbert: interrupted; the same command goes on from here\n";
    return interrupted;
  }
  if (json) {
    const nlohmann::ordered_json facts{{"train", made.train.string()},
                                       {"val", made.val.string()},
                                       {"gallery", made.gallery.string()},
                                       {"videos", made.videos.string()},
                                       {"gallery_videos", made.gallery_videos.string()},
                                       {"tokenizer_dir", made.vocabulary_folder.string()},
                                       {"vocab_size", made.vocabulary_size},
                                       {"made", made.made},
                                       {"all", made.all}};
    std::cout << facts.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
    return done;
  }
  std::cout << made.all << " videos (" << made.made << " made now)\n"
            << "  train    " << made.train.string() << "\n  val      " << made.val.string() << "\n  gallery  "
            << made.gallery.string() << "\n  videos   " << made.videos.string() << " and "
            << made.gallery_videos.string() << "\n  tokens   " << made.vocabulary_folder.string() << " ("
            << made.vocabulary_size << " tokens)\n";
  return done;
}

}  // namespace clipbert::cli
