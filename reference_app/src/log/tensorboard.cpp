#include "log/tensorboard.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstring>

#include "config/errors.hpp"
#include "log/event_format.hpp"
#include "log/protobuf.hpp"

namespace clipbert::log {
namespace fs = std::filesystem;
namespace pb = protobuf;
using namespace event_format;  // NOLINT: its numbers only

namespace {

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

/// Doubles in a row, as protobuf packs them.
std::string packed(const std::vector<double>& values) {
  std::string out;
  for (const double v : values) pb::append_raw(out, v);
  return out;
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

void TensorBoard::histogram(std::string_view tag, std::int64_t step, const Histogram& values) {
  if (values.limits.empty()) return;
  const auto histogram = pb::real64(histogram_min, values.limits.front()) +
                         pb::real64(histogram_max, values.limits.back()) + pb::real64(histogram_count, values.count) +
                         pb::real64(histogram_sum, values.sum) + pb::real64(histogram_squares, values.squares) +
                         pb::bytes(histogram_limits, packed(values.limits)) +
                         pb::bytes(histogram_counts, packed(values.counts));
  const auto entry = pb::bytes(value_tag, tag) + pb::bytes(value_histogram, histogram);
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

}  // namespace clipbert::log
