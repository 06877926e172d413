#include "data/libav.hpp"

#include <sys/types.h>

#include <cstdint>
#include <mutex>
#include <new>
#include <system_error>
#include <utility>

#include "config/errors.hpp"

namespace clipbert::data::av {
namespace {

thread_local LogCapture* current_capture = nullptr;

void capture_log(void* context, int level, const char* format, va_list arguments) {
  if (level > AV_LOG_ERROR || current_capture == nullptr) return;
  char line[512];
  int print_prefix = 0;
  av_log_format_line2(context, level, format, arguments, line, sizeof line, &print_prefix);
  current_capture->note(line);
}

int read_file(void* opaque, std::uint8_t* buffer, int size) {
  auto* file = static_cast<std::FILE*>(opaque);
  const std::size_t count = std::fread(buffer, 1, static_cast<std::size_t>(size), file);
  if (count > 0) return static_cast<int>(count);
  return std::ferror(file) != 0 ? AVERROR(EIO) : AVERROR_EOF;
}

std::int64_t seek_file(void* opaque, std::int64_t offset, int whence) {
  auto* file = static_cast<std::FILE*>(opaque);
  if ((whence & AVSEEK_SIZE) != 0) {
    const off_t here = ftello(file);
    if (here < 0 || fseeko(file, 0, SEEK_END) != 0) return AVERROR(EIO);
    const off_t size = ftello(file);
    return fseeko(file, here, SEEK_SET) == 0 ? static_cast<std::int64_t>(size) : AVERROR(EIO);
  }
  if (fseeko(file, static_cast<off_t>(offset), whence & ~AVSEEK_FORCE) != 0) return AVERROR(EIO);
  return static_cast<std::int64_t>(ftello(file));
}

}  // namespace

FramePtr make_frame() {
  FramePtr frame(av_frame_alloc());
  if (!frame) throw std::bad_alloc();
  return frame;
}

PacketPtr make_packet() {
  PacketPtr packet(av_packet_alloc());
  if (!packet) throw std::bad_alloc();
  return packet;
}

std::string error_text(int code) {
  char text[AV_ERROR_MAX_STRING_SIZE] = {};
  av_strerror(code, text, sizeof text);
  return text;
}

LogCapture::LogCapture() : previous_(current_capture) {
  // libav's callback is one per process and writes to stderr unless replaced; ours routes by thread.
  static std::once_flag once;
  std::call_once(once, [] { av_log_set_callback(capture_log); });
  current_capture = this;
}

LogCapture::~LogCapture() { current_capture = previous_; }

void LogCapture::note(std::string line) {
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
  if (line.starts_with('[')) {  // "[mov,mp4 @ 0x55d0] text": the address tells nobody anything
    if (const auto end = line.find("] "); end != std::string::npos) line.erase(0, end + 2);
  }
  if (first_error_.empty()) first_error_ = std::move(line);
}

FileSource::FileSource(const std::filesystem::path& file) {
  std::error_code code;
  const auto status = std::filesystem::status(file, code);
  if (!std::filesystem::exists(status)) throw content_error(file.string() + ": no such file");
  if (!std::filesystem::is_regular_file(status)) throw content_error(file.string() + ": not a regular file");
  if (std::filesystem::file_size(file, code) == 0 && !code)
    throw content_error(file.string() + ": the file is empty (0 bytes)");
  file_.reset(std::fopen(file.c_str(), "rb"));
  if (!file_) throw content_error(file.string() + ": cannot be opened for reading");

  constexpr int buffer_size = 64 * 1024;
  auto* buffer = static_cast<unsigned char*>(av_malloc(buffer_size));
  if (buffer == nullptr) throw std::bad_alloc();
  io_ = avio_alloc_context(buffer, buffer_size, 0, file_.get(), read_file, nullptr, seek_file);
  if (io_ == nullptr) {
    av_free(buffer);
    throw std::bad_alloc();
  }
}

FileSource::~FileSource() {
  if (io_ != nullptr) av_freep(&io_->buffer);
  avio_context_free(&io_);
}

}  // namespace clipbert::data::av
