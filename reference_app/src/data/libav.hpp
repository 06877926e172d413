/// RAII over libav's C types, its log and its file access. Private to this folder: the only header that names libav.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "data/video_source.hpp"

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/display.h>
#include <libavutil/imgutils.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>
}

namespace clipbert::data::av {

template <auto free_function>
struct Deleter {
  template <typename T>
  void operator()(T* pointer) const noexcept {
    free_function(&pointer);
  }
};
struct SwsDeleter {
  void operator()(SwsContext* context) const noexcept { sws_freeContext(context); }
};
using FramePtr = std::unique_ptr<AVFrame, Deleter<av_frame_free>>;
using PacketPtr = std::unique_ptr<AVPacket, Deleter<av_packet_free>>;
using CodecPtr = std::unique_ptr<AVCodecContext, Deleter<avcodec_free_context>>;
using InputPtr = std::unique_ptr<AVFormatContext, Deleter<avformat_close_input>>;
using SwsPtr = std::unique_ptr<SwsContext, SwsDeleter>;

[[nodiscard]] FramePtr make_frame();
[[nodiscard]] PacketPtr make_packet();

/// libav's words for an error code.
[[nodiscard]] std::string error_text(int code);

/// The first error line that libav logged on a thread while a LogScope of this object was open there.
class LogCapture {
 public:
  [[nodiscard]] const std::string& first_error() const { return first_error_; }
  void note(std::string line);

 private:
  std::string first_error_;
};

/// While it lives, what libav logs on this thread goes to `capture`; nothing reaches stderr.
class LogScope {
 public:
  explicit LogScope(LogCapture& capture);
  ~LogScope();
  LogScope(const LogScope&) = delete;
  LogScope& operator=(const LogScope&) = delete;

 private:
  LogCapture* previous_;
};

/// A regular file or bytes in memory as libav's input: nothing else on the machine can be opened through it. A file
/// that grows while it is read ends where it ended when it was opened.
class Input {
 public:
  /// Reading ends early when `interrupted` says so.
  /// throws  content_error if the source is no readable regular file, or empty
  Input(const VideoSource& source, std::function<bool()> interrupted);
  ~Input();
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;
  [[nodiscard]] AVIOContext* io() const { return io_; }
  [[nodiscard]] std::int64_t size() const { return size_; }

 private:
  struct Closer {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  void open_file(const VideoSource& source);
  int read(std::uint8_t* buffer, int size);
  std::int64_t seek(std::int64_t offset, int whence);

  std::unique_ptr<std::FILE, Closer> file_;  // none: the bytes lie in memory
  std::span<const std::byte> bytes_;
  std::int64_t size_ = 0, at_ = 0;
  std::function<bool()> interrupted_;
  AVIOContext* io_ = nullptr;
};

}  // namespace clipbert::data::av
