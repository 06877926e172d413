/// metrics.jsonl: one JSON object per optimizer step.
#pragma once
#include <cstdint>
#include <filesystem>
#include <fstream>

#include "log/event_sink.hpp"

namespace clipbert::log {

/// Appends a line per step. What an earlier run wrote behind `resumed_step`, or left half written, is cut off first; 0
/// starts a new file. throws  content_error if the file cannot be written
class MetricsFile : public EventSink {
 public:
  explicit MetricsFile(std::filesystem::path file, std::int64_t resumed_step = 0);
  void step(const StepRecord& record) override;
  void flush() override { out_.flush(); }

 private:
  std::filesystem::path file_;
  std::ofstream out_;
};

}  // namespace clipbert::log
