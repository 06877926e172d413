/// Where a run reports to: TensorBoard, metrics.jsonl, log.txt, the terminal. The trainer knows this interface only.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace clipbert::log {

/// One optimizer step; the fields of a line of metrics.jsonl.
struct StepRecord {
  std::int64_t step = 0;  ///< optimizer steps so far, from 1
  double epoch = 0;
  double loss = 0, loss_smoothed = 0;
  double loss_scale = 1;
  bool skipped = false;
  double grad_norm = 0;  ///< before clipping, unscaled
  double lr_transformer = 0, lr_cnn = 0;
  double examples_per_second = 0;
  double data_wait_ms = 0, step_ms = 0;
  std::int64_t mem_bytes = 0;
};

/// How often values fell into each of a row of intervals.
struct Histogram {
  std::vector<double> limits, counts;  ///< of interval i: the upper end, and the values above the one before
  double count = 0, sum = 0, squares = 0;

  /// Adds the next interval, of width 1, whose values count with its middle.
  void add(double limit, double values) {
    const double middle = limit - 0.5;
    limits.push_back(limit), counts.push_back(values);
    count += values, sum += values * middle, squares += values * middle * middle;
  }
};

/// A receiver of what happens in a run. Every call is optional for an implementation.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void step(const StepRecord& /*record*/) {}
  virtual void scalar(std::string_view /*tag*/, std::int64_t /*step*/, double /*value*/) {}
  virtual void histogram(std::string_view /*tag*/, std::int64_t /*step*/, const Histogram& /*values*/) {}
  virtual void text(std::string_view /*tag*/, std::int64_t /*step*/, std::string_view /*text*/) {}
  virtual void info(std::string_view /*line*/) {}
  virtual void warn(std::string_view /*line*/) {}
  /// Hands everything over to the operating system.
  virtual void flush() {}
};

/// Passes everything on to several sinks, in order. Of values that are no number it warns once per tag, and says at the
/// end how many there were.
class FanOut : public EventSink {
 public:
  explicit FanOut(std::vector<EventSink*> sinks) : sinks_(std::move(sinks)) {}
  /// Keeps lines until open() hands them on.
  FanOut() : open_(false) {}
  void open(std::vector<EventSink*> sinks);
  void step(const StepRecord& record) override;
  void scalar(std::string_view tag, std::int64_t step, double value) override;
  void histogram(std::string_view tag, std::int64_t step, const Histogram& values) override;
  void text(std::string_view tag, std::int64_t step, std::string_view text) override;
  void info(std::string_view line) override;
  void warn(std::string_view line) override;
  void flush() override;
  /// One line per tag with more than one value that is no number.
  void summary();

 private:
  void watch(std::string_view tag, std::int64_t step, double value);

  struct Line {
    bool is_warning;
    std::string text;
  };
  std::vector<EventSink*> sinks_;
  bool open_ = true;
  std::vector<Line> kept_;
  std::map<std::string, std::int64_t, std::less<>> not_finite_;
};

/// The scalars of a step under the original's TensorBoard names; those that it lacks start with amp/ or perf/.
[[nodiscard]] std::vector<std::pair<std::string_view, double>> tagged(const StepRecord& record);

}  // namespace clipbert::log
