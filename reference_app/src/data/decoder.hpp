/// One video stream of a source: packets in, pictures out. Private to this folder.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>

#include "config/errors.hpp"
#include "data/libav.hpp"
#include "data/video.hpp"

namespace clipbert::data {

/// Ends libav's work when the file asks for too much of it, or when the program is asked to stop.
/// It counts the processor time of this thread, so that a busy machine changes no outcome.
class Watch {
 public:
  Watch(double seconds, double seconds_per_megabyte, const std::atomic<bool>* stop)
      : seconds_(seconds), seconds_per_megabyte_(seconds_per_megabyte), stop_(stop) {}

  /// A new piece of work on a file of so many bytes begins on this thread.
  void begin(std::int64_t bytes);
  [[nodiscard]] bool stopped() const { return stop_ != nullptr && stop_->load(std::memory_order_relaxed); }
  [[nodiscard]] bool expired() const;
  [[nodiscard]] double allowed() const { return allowed_; }

 private:
  double seconds_, seconds_per_megabyte_, allowed_ = 0, began_ = 0;
  const std::atomic<bool>* stop_;
};

/// The chosen video stream of a file, opened: lowest index with the default disposition, else the largest, attached
/// pictures only where nothing else is there. One libav thread, so that damaged files too give the same frames always.
class Decoder {
 public:
  /// throws  content_error (name and reason) if nothing in the source can be decoded
  Decoder(const VideoSource& source, const VideoOptions& options);

  /// The next picture of the file, in the decoder's output order; false at the end.
  /// throws  content_error if the work goes beyond the options' limits, or was stopped; as do read and receive
  bool next(AVFrame& frame);

  /// The next packet of the stream; false at the end.
  bool read(AVPacket& packet);
  /// Hands the decoder a packet, or the end (null); what it says against it is noted.
  void send(const AVPacket* packet);
  /// A picture that is ready; false when the decoder wants more, or is at its end.
  bool receive(AVFrame& frame);
  /// Begins anew with a fresh decoder, so that any packets may follow and nothing of earlier ones can show.
  void restart();

  [[nodiscard]] const AVStream& stream() const { return *input_->streams[index_]; }
  [[nodiscard]] const AVInputFormat& container() const { return *input_->iformat; }
  [[nodiscard]] AVRational average_rate() const {
    return av_guess_frame_rate(input_.get(), input_->streams[index_], nullptr);
  }
  [[nodiscard]] std::int64_t errors() const { return errors_; }
  [[nodiscard]] const std::string& first_error() const { return first_error_; }
  /// What libav returned or logged as an error, or the mark on a packet that the container calls corrupt. Much damage
  /// shows here only: decoders conceal it, and a cut file may just end.
  [[nodiscard]] std::string complaint() const;
  [[nodiscard]] content_error fault(const std::string& what) const;
  [[nodiscard]] av::LogCapture& log() { return log_; }
  /// Each piece of work may take as long as the limits say.
  void begin_work() { watch_.begin(io_.size()); }

 private:
  void open_container();
  void find_stream_info();
  void open_codec();
  void check_watch() const;
  void note_error(int code);

  std::string name_;
  av::LogCapture log_;
  Watch watch_;
  av::Input io_;
  av::InputPtr input_;
  av::CodecPtr codec_;
  av::PacketPtr packet_;
  int index_ = -1;
  bool ended_ = false, drained_ = false, corrupt_packets_ = false;
  std::int64_t errors_ = 0;
  std::string first_error_;
};

/// The display matrix of a frame, else of its stream; null if there is none.
[[nodiscard]] const std::int32_t* display_matrix(const AVStream& stream, const AVFrame& frame);

}  // namespace clipbert::data
