#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "config/errors.hpp"
#include "log/event_format.hpp"
#include "log/protobuf.hpp"
#include "log/tensorboard.hpp"

namespace clipbert::log {
namespace fs = std::filesystem;
namespace pb = protobuf;
using namespace event_format;  // NOLINT: its numbers only

namespace {

double tensor_scalar(std::string_view tensor) {
  double value = 0;
  pb::Reader reader(tensor);
  while (const auto field = reader.next()) {
    float number = 0;
    if (field->number == tensor_floats && field->wire == pb::Wire::fixed32)
      value = field->real();
    else if ((field->number == tensor_floats || field->number == tensor_content) &&
             field->inside.size() == sizeof(number))
      value = (std::memcpy(&number, field->inside.data(), sizeof(number)), number);
  }
  return value;
}

std::vector<double> unpacked(std::string_view bytes) {
  std::vector<double> values(bytes.size() / sizeof(double));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(double));
  return values;
}

Histogram read_histogram(std::string_view message) {
  Histogram h;
  pb::Reader reader(message);
  while (const auto field = reader.next()) {
    if (field->number == histogram_limits) h.limits = unpacked(field->inside);
    if (field->number == histogram_counts) h.counts = unpacked(field->inside);
    if (field->wire != pb::Wire::fixed64) continue;
    if (field->number == histogram_count) h.count = field->real();
    if (field->number == histogram_sum) h.sum = field->real();
    if (field->number == histogram_squares) h.squares = field->real();
  }
  return h;
}

void read_value(std::string_view message, Event& event) {
  std::string tag, text;
  std::optional<double> number;
  std::optional<Histogram> histogram;
  std::string_view tensor;
  std::uint64_t dtype = 0;
  pb::Reader reader(message);
  while (const auto field = reader.next()) {
    if (field->number == value_tag) tag = field->inside;
    if (field->number == value_simple && field->wire == pb::Wire::fixed32) number = field->real();
    if (field->number == value_histogram) histogram = read_histogram(field->inside);
    if (field->number == value_tensor) tensor = field->inside;
  }
  pb::Reader inside(tensor);
  while (const auto field = inside.next()) {
    if (field->number == tensor_dtype) dtype = field->bits;
    if (field->number == tensor_strings) text = field->inside;
  }
  if (histogram)
    event.histograms.emplace_back(std::move(tag), std::move(*histogram));
  else if (number)
    event.scalars.emplace_back(std::move(tag), *number);
  else if (dtype == dtype_float)
    event.scalars.emplace_back(std::move(tag), tensor_scalar(tensor));
  else if (dtype == dtype_string)
    event.texts.emplace_back(std::move(tag), std::move(text));
}

std::optional<Event> read_event(std::string_view message) {
  Event event;
  pb::Reader reader(message);
  while (const auto field = reader.next()) {
    if (field->number == event_wall_time && field->wire == pb::Wire::fixed64) event.wall_time = field->real();
    if (field->number == event_step) event.step = static_cast<std::int64_t>(field->bits);
    if (field->number == event_file_version) event.file_version = field->inside;
    if (field->number == event_summary) {
      pb::Reader summary(field->inside);
      while (const auto value = summary.next())
        if (value->number == summary_value) read_value(value->inside, event);
    }
    if (field->number == event_session_log) {
      pb::Reader session(field->inside);
      while (const auto status = session.next())
        if (status->number == session_status) event.restart = status->bits == session_start;
    }
  }
  if (reader.failed()) return std::nullopt;
  return event;
}

/// The message of the record at the front of `rest`, which is then dropped from it, or why it is bad.
std::optional<std::string_view> next_record(std::string_view& rest, std::string& why) {
  constexpr std::size_t head = 12, tail = 4;
  std::uint64_t length = 0;
  std::uint32_t check = 0;
  why = "it is cut";
  if (rest.size() < head) return std::nullopt;
  std::memcpy(&length, rest.data(), sizeof(length));
  std::memcpy(&check, rest.data() + sizeof(length), sizeof(check));
  if (check != masked_crc32c(rest.substr(0, sizeof(length)))) {
    why = "wrong checksum of its length";
    return std::nullopt;
  }
  if (rest.size() - head < tail || length > rest.size() - head - tail) return std::nullopt;
  const auto message = rest.substr(head, length);
  std::memcpy(&check, rest.data() + head + length, sizeof(check));
  if (check != masked_crc32c(message)) {
    why = "wrong checksum";
    return std::nullopt;
  }
  rest.remove_prefix(head + length + tail);
  return message;
}

}  // namespace

EventFile read_events(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::error_code error;
  if (!in || fs::is_directory(file, error)) throw content_error(file.string() + ": cannot be read; check the path");
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  EventFile result;
  std::string_view rest = bytes;
  std::string why;
  while (!rest.empty()) {
    const auto at = bytes.size() - rest.size();
    const auto message = next_record(rest, why);
    auto event = message ? read_event(*message) : std::nullopt;
    if (!event) {
      result.bad_record = file.string() + ": record " + std::to_string(result.events.size()) + " at byte " +
                          std::to_string(at) + " is bad: " + (message ? "not an event" : why) +
                          "; what follows is not read";
      break;
    }
    result.events.push_back(std::move(*event));
  }
  return result;
}

std::map<std::string, Curve> read_curves(const fs::path& folder, std::vector<std::string>* warnings) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().starts_with(file_prefix)) files.push_back(entry.path());
  std::ranges::sort(files);
  std::map<std::string, Curve> curves;
  for (const auto& file : files) {
    const auto read = read_events(file);
    if (read.bad_record && warnings != nullptr) warnings->push_back(*read.bad_record);
    for (const auto& event : read.events) {
      if (event.restart)
        for (auto& [tag, curve] : curves)
          std::erase_if(curve, [&](const auto& point) { return point.first >= event.step; });
      for (const auto& [tag, value] : event.scalars) curves[tag].emplace_back(event.step, value);
    }
  }
  std::erase_if(curves, [](const auto& entry) { return entry.second.empty(); });
  return curves;
}

}  // namespace clipbert::log
