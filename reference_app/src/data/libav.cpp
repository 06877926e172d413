#include "data/libav.hpp"

#include <sys/types.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
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

LogScope::LogScope(LogCapture& capture) : previous_(current_capture) {
  // libav's settings are one per process. Its log would go to stderr; ours routes by thread. A small file can claim
  // tables and texts of any length: no block larger than the largest picture is made for it.
  static std::once_flag once;
  std::call_once(once, [] {
    av_log_set_callback(capture_log);
    av_max_alloc(std::size_t{288} << 20);
  });
  current_capture = &capture;
}

LogScope::~LogScope() { current_capture = previous_; }

void LogCapture::note(std::string line) {
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
  if (line.starts_with('[')) {  // "[mov,mp4 @ 0x55d0] text": the address tells nobody anything
    if (const auto end = line.find("] "); end != std::string::npos) line.erase(0, end + 2);
  }
  if (first_error_.empty()) first_error_ = std::move(line);
}

Input::Input(const VideoSource& source, std::function<bool()> interrupted) : interrupted_(std::move(interrupted)) {
  if (source.in_memory()) {
    bytes_ = source.bytes();
    size_ = static_cast<std::int64_t>(bytes_.size());
  } else {
    open_file(source);
  }
  if (size_ == 0) throw content_error(source.name() + ": the file is empty (0 bytes)");

  constexpr int buffer_size = 64 * 1024;
  auto* buffer = static_cast<unsigned char*>(av_malloc(buffer_size));
  if (buffer == nullptr) throw std::bad_alloc();
  io_ = avio_alloc_context(
      buffer, buffer_size, 0, this,
      [](void* self, std::uint8_t* to, int size) { return static_cast<Input*>(self)->read(to, size); }, nullptr,
      [](void* self, std::int64_t offset, int whence) { return static_cast<Input*>(self)->seek(offset, whence); });
  if (io_ == nullptr) {
    av_free(buffer);
    throw std::bad_alloc();
  }
}

Input::~Input() {
  if (io_ != nullptr) av_freep(&io_->buffer);
  avio_context_free(&io_);
}

void Input::open_file(const VideoSource& source) {
  std::error_code code;
  const auto status = std::filesystem::status(source.file(), code);
  if (!std::filesystem::exists(status)) throw content_error(source.name() + ": no such file");
  if (!std::filesystem::is_regular_file(status)) throw content_error(source.name() + ": not a regular file");
  file_.reset(std::fopen(source.file().c_str(), "rb"));
  const auto size = std::filesystem::file_size(source.file(), code);
  if (!file_ || code) throw content_error(source.name() + ": cannot be opened for reading; check its permissions");
  size_ = static_cast<std::int64_t>(size);
}

int Input::read(std::uint8_t* buffer, int size) {
  if (interrupted_()) return AVERROR_EXIT;
  const auto wanted = static_cast<std::size_t>(std::min<std::int64_t>(size, size_ - at_));
  if (at_ >= size_ || wanted == 0) return AVERROR_EOF;
  std::size_t count = wanted;
  if (file_) {
    count = std::fread(buffer, 1, wanted, file_.get());
    if (count == 0) return std::ferror(file_.get()) != 0 ? AVERROR(EIO) : AVERROR_EOF;
  } else {
    std::memcpy(buffer, bytes_.data() + at_, wanted);
  }
  at_ += static_cast<std::int64_t>(count);
  return static_cast<int>(count);
}

std::int64_t Input::seek(std::int64_t offset, int whence) {
  if ((whence & AVSEEK_SIZE) != 0) return size_;
  const int from = whence & ~AVSEEK_FORCE;
  const std::int64_t base = from == SEEK_CUR ? at_ : from == SEEK_END ? size_ : 0;
  std::int64_t target = 0;
  if (__builtin_add_overflow(base, offset, &target) || target < 0) return AVERROR(EINVAL);
  if (file_ && fseeko(file_.get(), static_cast<off_t>(target), SEEK_SET) != 0) return AVERROR(EIO);
  return at_ = target;
}

}  // namespace clipbert::data::av
