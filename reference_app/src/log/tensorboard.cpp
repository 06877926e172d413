#include "log/tensorboard.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstring>
#include <iterator>
#include <utility>

#include "config/errors.hpp"
#include "log/protobuf.hpp"

namespace clipbert::log {
namespace fs = std::filesystem;
namespace pb = protobuf;

namespace {

// field numbers of Event, SessionLog, Summary, Summary.Value, TensorProto
constexpr int event_wall_time = 1, event_step = 2, event_file_version = 3, event_summary = 5, event_session_log = 7;
constexpr int session_status = 1, session_start = 1;
constexpr int summary_value = 1;
constexpr int value_tag = 1, value_simple = 2, value_tensor = 8, value_metadata = 9;
constexpr int tensor_dtype = 1, tensor_shape = 2, tensor_content = 4, tensor_floats = 5, tensor_strings = 8;
constexpr int dtype_float = 1, dtype_string = 7;

constexpr std::string_view file_prefix = "events.out.tfevents.";

constexpr std::array<std::uint32_t, 256> crc_table = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c & 1) != 0 ? 0x82f63b78U ^ c >> 1 : c >> 1;
    table[i] = c;
  }
  return table;
}();

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// The number behind the prefix of an event file's name, 0 if there is none.
std::int64_t time_in_name(const std::string& name) {
  std::int64_t time = 0;
  if (name.starts_with(file_prefix)) std::from_chars(name.data() + file_prefix.size(), name.data() + name.size(), time);
  return time;
}

/// TensorBoard reads a folder's files in the order of their names, so a newer file needs a larger time.
fs::path new_name(const fs::path& folder) {
  auto time = static_cast<std::int64_t>(seconds_now());
  for (const auto& entry : fs::directory_iterator(folder))
    if (const auto other = time_in_name(entry.path().filename().string()); other < std::int64_t{1} << 40)
      time = std::max(time, other + 1);
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0 || host[0] == '\0') std::strcpy(host.data(), "localhost");
  return folder / (std::string(file_prefix) + std::to_string(time) + "." + host.data() + "." +
                   std::to_string(::getpid()) + ".0");
}

std::string record(std::string_view message) {
  std::string out;
  pb::append_raw(out, static_cast<std::uint64_t>(message.size()));
  pb::append_raw(out, masked_crc32c(out));
  out += message;
  pb::append_raw(out, masked_crc32c(message));
  return out;
}

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

void read_value(std::string_view message, Event& event) {
  std::string tag, text;
  std::optional<double> number;
  std::string_view tensor;
  std::uint64_t dtype = 0;
  pb::Reader reader(message);
  while (const auto field = reader.next()) {
    if (field->number == value_tag) tag = field->inside;
    if (field->number == value_simple && field->wire == pb::Wire::fixed32) number = field->real();
    if (field->number == value_tensor) tensor = field->inside;
  }
  pb::Reader inside(tensor);
  while (const auto field = inside.next()) {
    if (field->number == tensor_dtype) dtype = field->bits;
    if (field->number == tensor_strings) text = field->inside;
  }
  if (number)
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

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xffffffffU;
  for (const char c : bytes) crc = crc_table[(crc ^ static_cast<unsigned char>(c)) & 0xff] ^ crc >> 8;
  return ~crc;
}

std::uint32_t masked_crc32c(std::string_view bytes) {
  const auto crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8U;
}

TensorBoard::TensorBoard(const fs::path& folder, std::int64_t first_step) {
  fs::create_directories(folder);
  file_ = new_name(folder);
  out_.open(file_, std::ios::binary | std::ios::trunc);
  event(0, pb::bytes(event_file_version, "brain.Event:2"));
  // also at step 0: a fresh run in a used folder hides the old curves
  event(first_step, pb::bytes(event_session_log, pb::integer(session_status, session_start)));
  flush();
}

TensorBoard::~TensorBoard() { out_.flush(); }

void TensorBoard::event(std::int64_t step, std::string_view payload) {
  std::string message = pb::real64(event_wall_time, seconds_now());
  if (step != 0) message += pb::integer(event_step, step);
  message += payload;
  const auto bytes = record(message);
  out_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!out_) throw content_error(file_.string() + ": cannot be written; check the folder and the free space");
}

void TensorBoard::step(const StepRecord& record) {
  std::string summary;
  for (const auto& [tag, value] : tagged(record))
    summary +=
        pb::bytes(summary_value, pb::bytes(value_tag, tag) + pb::real32(value_simple, static_cast<float>(value)));
  event(record.step, pb::bytes(event_summary, summary));
}

void TensorBoard::scalar(std::string_view tag, std::int64_t step, double value) {
  const auto entry = pb::bytes(value_tag, tag) + pb::real32(value_simple, static_cast<float>(value));
  event(step, pb::bytes(event_summary, pb::bytes(summary_value, entry)));
}

void TensorBoard::text(std::string_view tag, std::int64_t step, std::string_view text) {
  constexpr int metadata_plugin = 1, plugin_name = 1, shape_dim = 2, dim_size = 1;
  const auto tensor = pb::integer(tensor_dtype, dtype_string) +
                      pb::bytes(tensor_shape, pb::bytes(shape_dim, pb::integer(dim_size, 1))) +
                      pb::bytes(tensor_strings, text);
  const auto entry = pb::bytes(value_tag, tag) + pb::bytes(value_tensor, tensor) +
                     pb::bytes(value_metadata, pb::bytes(metadata_plugin, pb::bytes(plugin_name, "text")));
  event(step, pb::bytes(event_summary, pb::bytes(summary_value, entry)));
}

void TensorBoard::flush() { out_.flush(); }

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
