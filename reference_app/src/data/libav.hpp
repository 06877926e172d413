/// RAII over libav's C types, its log and its file access. Private to this folder: the only header that names libav.
#pragma once
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

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

/// While it lives, the first error line that libav logs on this thread lands here; nothing reaches stderr.
class LogCapture {
 public:
  LogCapture();
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;
  [[nodiscard]] const std::string& first_error() const { return first_error_; }
  void note(std::string line);

 private:
  LogCapture* previous_;
  std::string first_error_;
};

/// A regular file as libav's input: nothing else on the machine can be opened through it.
class FileSource {
 public:
  /// throws  content_error if `file` is no readable regular file, or empty
  explicit FileSource(const std::filesystem::path& file);
  ~FileSource();
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  [[nodiscard]] AVIOContext* io() const { return io_; }

 private:
  struct Closer {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Closer> file_;
  AVIOContext* io_ = nullptr;
};

}  // namespace clipbert::data::av
