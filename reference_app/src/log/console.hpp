/// What a person reads: log.txt and the terminal.
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iosfwd>
#include <string>
#include <string_view>

#include "log/event_sink.hpp"

namespace clipbert::log {

/// Lines with the time, appended to a file and shown on a stream. The file also has a line for every step that
/// `every_steps` divides (0: none) and for every scalar, but those of gradients by group, which are for curves.
/// throws  content_error if the file cannot be opened
class TextLog : public EventSink {
 public:
  /// `file` may be empty: the stream only. `erase_line`: a progress bar shares the stream, which is a terminal.
  TextLog(const std::filesystem::path& file, std::ostream& stream, std::int64_t every_steps = 0,
          bool erase_line = false);
  void step(const StepRecord& record) override;
  void scalar(std::string_view tag, std::int64_t step, double value) override;
  void info(std::string_view line) override { put(line, true); }
  void warn(std::string_view line) override { put("warning: " + std::string(line), true); }
  void flush() override;

 private:
  void put(std::string_view line, bool show);

  std::ofstream file_;
  std::ostream& stream_;
  std::int64_t every_steps_;
  bool erase_line_;
};

/// Shows how far a run is: one line that is rewritten on a terminal, elsewhere a line every `percent` of the steps.
class Progress : public EventSink {
 public:
  Progress(std::ostream& stream, std::int64_t total_steps, bool terminal, int percent = 5);
  ~Progress() override;
  void step(const StepRecord& record) override;

 private:
  void show(const StepRecord& record);

  std::ostream& stream_;
  std::int64_t total_;
  bool terminal_;
  int percent_;
  std::int64_t first_ = -1, shown_part_ = 0;
  bool open_line_ = false;
  std::chrono::steady_clock::time_point begin_, last_shown_;
};

/// True if standard error is a terminal.
[[nodiscard]] bool stderr_is_terminal();

/// A step as one line: "step 12/100 epoch 0.5 loss 0.6931 ..."; the loss is the smoothed one. Without a total: "step 12
/// ...".
[[nodiscard]] std::string step_line(const StepRecord& record, std::int64_t total_steps = 0);

}  // namespace clipbert::log
