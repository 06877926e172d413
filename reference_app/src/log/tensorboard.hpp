/// TensorBoard event files: records of protobuf messages with masked CRC-32C checksums.
/// source  tensorflow/core/util/event.proto, framework/summary.proto, lib/io/record_writer.cc (formats only)
#pragma once
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "log/event_sink.hpp"

namespace clipbert::log {

/// CRC-32C (Castagnoli) of `bytes`.
/// source  RFC 3720, appendix B.4
[[nodiscard]] std::uint32_t crc32c(std::string_view bytes);
/// The form in which record files store it.
[[nodiscard]] std::uint32_t masked_crc32c(std::string_view bytes);

/// Writes scalars, histograms and texts into a new event file of a folder.
/// A resumed run opens a file of its own, named to be read after the older ones; its first event tells TensorBoard to
/// drop what those hold from `first_step` on, so that each step shows once. throws  content_error if the file cannot be
/// written
class TensorBoard : public EventSink {
 public:
  explicit TensorBoard(const std::filesystem::path& folder, std::int64_t first_step = 0);
  ~TensorBoard() override;
  void step(const StepRecord& record) override;
  void scalar(std::string_view tag, std::int64_t step, double value) override;
  void histogram(std::string_view tag, std::int64_t step, const Histogram& values) override;
  void text(std::string_view tag, std::int64_t step, std::string_view text) override;
  void flush() override;

  [[nodiscard]] const std::filesystem::path& file() const { return file_; }

 private:
  void event(std::int64_t step, std::string_view payload);

  std::filesystem::path file_;
  std::ofstream out_;
};

/// One record of an event file.
struct Event {
  double wall_time = 0;
  std::int64_t step = 0;
  std::string file_version;  ///< of the first record
  bool restart = false;      ///< what stands earlier with a step of at least `step` no longer counts
  std::vector<std::pair<std::string, double>> scalars;
  std::vector<std::pair<std::string, std::string>> texts;
  std::vector<std::pair<std::string, Histogram>> histograms;
};

/// The good records of a file up to the first bad one.
struct EventFile {
  std::vector<Event> events;
  std::optional<std::string> bad_record;  ///< one line: file, place, what is wrong
};

/// throws  content_error if the file cannot be read at all
[[nodiscard]] EventFile read_events(const std::filesystem::path& file);

/// Points of one curve in the order of their writing.
using Curve = std::vector<std::pair<std::int64_t, double>>;

/// All curves of the folder's event files, read in the order of their names, restarts applied as TensorBoard does.
/// `warnings`, if given, receives a line per bad record.
[[nodiscard]] std::map<std::string, Curve> read_curves(const std::filesystem::path& folder,
                                                       std::vector<std::string>* warnings = nullptr);

}  // namespace clipbert::log
