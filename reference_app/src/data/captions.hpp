/// Caption files (JSON lines) and the folder of clips that they name.
#pragma once
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/clip_folder.hpp"

namespace clipbert::data {

/// One record of a caption file; its id is its place among the good records.
struct Caption {
  std::string text, clip;
  std::optional<std::string> sen_id;  ///< a label only
  std::int64_t line = 0;              ///< from 1, blank lines counted
};

struct LineNote {
  std::int64_t line = 0;
  std::string reason;
};

/// Everything that a caption file holds, good and bad.
struct CaptionFile {
  std::filesystem::path file;
  std::vector<Caption> records;
  std::vector<LineNote> bad_lines;     ///< in one report; see require_good
  std::vector<LineNote> warned_lines;  ///< records that stay: empty caption, repeated sen_id

  /// One line that names the file, every bad line and its reason; empty if there is none.
  [[nodiscard]] std::string bad_report() const;
  /// The same for the warned lines.
  [[nodiscard]] std::string warning_report() const;
};

/// Reads a caption file: UTF-8 with or without byte order mark, LF or CR LF, white-space lines skipped but counted; a
/// record is one strict JSON object with `caption` (string), `clip_name` (string or integer) and perhaps `sen_id`.
/// throws  content_error if the file as a whole is not of this form; bad lines are returned, not thrown
[[nodiscard]] CaptionFile read_captions(const std::filesystem::path& file);

/// As read_captions, but bad lines too are an error.
/// throws  content_error with bad_report()
[[nodiscard]] CaptionFile read_good_captions(const std::filesystem::path& file);

struct ClipNote {
  std::string clip, reason;
};
/// The clips of a caption file, each distinct one once, in order of first appearance.
struct ClipCheck {
  std::vector<std::string> playable;
  std::vector<ClipNote> undecodable, missing;

  /// One line that counts and names what is not playable; empty if all is.
  [[nodiscard]] std::string report(const ClipFolder& folder) const;
};
/// Opens each clip and decodes its first frame, on `threads` threads; a damaged clip that shows a frame is playable.
/// throws  content_error if a stem fits several files
[[nodiscard]] ClipCheck check_clips(const std::vector<Caption>& records, const ClipFolder& folder, int threads = 1,
                                    const std::atomic<bool>* stop = nullptr);

/// The distinct clips of the records, in order of first appearance.
[[nodiscard]] std::vector<std::string> distinct_clips(const std::vector<Caption>& records);

}  // namespace clipbert::data
