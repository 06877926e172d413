#include "log/console.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <ostream>

#include "config/errors.hpp"

namespace clipbert::log {
namespace {

std::string time_now() {
  const auto now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S ", &parts);
  return text.data();
}

std::string short_number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

std::string clock_text(double seconds) {
  const auto s = static_cast<long long>(std::clamp(seconds, 0.0, 3.6e8));
  std::array<char, 32> text{};
  if (s >= 3600)
    std::snprintf(text.data(), text.size(), "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
  else
    std::snprintf(text.data(), text.size(), "%lld:%02lld", s / 60, s % 60);
  return text.data();
}

constexpr std::string_view erase = "\r\x1b[K";

}  // namespace

bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) == 1; }

std::string step_line(const StepRecord& r, std::int64_t total_steps) {
  std::string line = "step " + std::to_string(r.step);
  if (total_steps > 0) line += "/" + std::to_string(total_steps);
  line += " epoch " + short_number(r.epoch) + " loss " + short_number(r.loss_smoothed) + " grad_norm " +
          short_number(r.grad_norm) + " lr " + short_number(r.lr_transformer) + "/" + short_number(r.lr_cnn) + " " +
          short_number(r.examples_per_second) + " examples/s";
  if (r.loss_scale != 1.0) line += " scale " + short_number(r.loss_scale);
  if (r.skipped) line += " skipped";
  return line;
}

TextLog::TextLog(const std::filesystem::path& file, std::ostream& stream, std::int64_t every_steps, bool erase_line)
    : stream_(stream), every_steps_(every_steps), erase_line_(erase_line) {
  if (file.empty()) return;
  file_.open(file, std::ios::app);
  if (!file_) throw content_error(file.string() + ": cannot be written; check the folder and its permissions");
}

void TextLog::put(std::string_view line, bool show) {
  const auto text = time_now() + std::string(line) + "\n";
  if (file_.is_open()) file_ << text << std::flush;
  if (!show) return;
  if (erase_line_) stream_ << erase;
  stream_ << text << std::flush;
}

void TextLog::step(const StepRecord& record) {
  if (every_steps_ > 0 && record.step % every_steps_ == 0) put(step_line(record), false);
}

void TextLog::scalar(std::string_view tag, std::int64_t step, double value) {
  if (tag.starts_with("amp/grad_")) return;
  put(std::string(tag) + " " + short_number(value) + " at step " + std::to_string(step), false);
}

void TextLog::flush() {
  if (file_.is_open()) file_.flush();
  stream_.flush();
}

Progress::Progress(std::ostream& stream, std::int64_t total_steps, bool terminal, int percent)
    : stream_(stream),
      total_(std::max<std::int64_t>(total_steps, 1)),
      terminal_(terminal),
      percent_(std::max(percent, 1)) {}

Progress::~Progress() {
  if (open_line_) stream_ << '\n' << std::flush;
}

void Progress::step(const StepRecord& record) {
  const auto now = std::chrono::steady_clock::now();
  if (first_ < 0) {
    first_ = record.step;
    begin_ = now;
    shown_part_ = (record.step - 1) * 100 / total_ / percent_;
  }
  const auto part = record.step * 100 / total_ / percent_;
  const bool due =
      terminal_ ? record.step == first_ || now - last_shown_ >= std::chrono::milliseconds(100) : part > shown_part_;
  if (!due && record.step < total_) return;
  show(record);
  last_shown_ = now;
  shown_part_ = part;
}

void Progress::show(const StepRecord& record) {
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  const auto done = record.step - first_;  // steps that took `elapsed`: the clock starts at the end of the first
  std::string line =
      std::to_string(std::min<std::int64_t>(record.step * 100 / total_, 100)) + "% " + step_line(record, total_);
  if (done > 0)
    line += " left " + clock_text(elapsed / static_cast<double>(done) * static_cast<double>(total_ - record.step));
  if (terminal_)
    stream_ << erase << line << std::flush;
  else
    stream_ << line << '\n' << std::flush;
  open_line_ = terminal_;
}

}  // namespace clipbert::log
