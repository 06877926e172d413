#include "data/captions.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <nlohmann/json.hpp>
#include <string_view>
#include <thread>
#include <unordered_set>
#include <utility>

#include "config/errors.hpp"
#include "data/utf8.hpp"
#include "data/video.hpp"

namespace clipbert::data {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// One top-level value of a record, as far as a caption file cares.
struct Field {
  enum class Kind { text, integer, real, other } kind = Kind::other;
  std::string text;  ///< a string's characters, a number as written
};

/// Collects the top-level strings and numbers of one JSON object and refuses a key that stands twice in any object.
class RecordReader : public nlohmann::json_sax<json> {
 public:
  std::map<std::string, Field> fields;
  bool is_object = false;
  std::string fault;

  bool null() override { return value({}); }
  bool boolean(bool) override { return value({}); }
  bool number_integer(number_integer_t number) override {
    return value({Field::Kind::integer, std::to_string(number)});
  }
  bool number_unsigned(number_unsigned_t number) override {
    return value({Field::Kind::integer, std::to_string(number)});
  }
  bool number_float(number_float_t, const string_t& written) override {
    const bool whole = written.find_first_of(".eE") == std::string::npos;  // an integer too long for 64 bits
    return value({whole ? Field::Kind::integer : Field::Kind::real, written});
  }
  bool string(string_t& text) override { return value({Field::Kind::text, text}); }
  bool binary(binary_t&) override { return value({}); }
  bool start_object(std::size_t) override {
    if (depth_++ == 0) is_object = true;
    keys_.emplace_back();
    return true;
  }
  bool end_object() override {
    keys_.pop_back();
    return close();
  }
  bool start_array(std::size_t) override { return ++depth_, true; }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (!keys_.back().insert(name).second) {
      fault = "key \"" + name + "\" stands twice in one object";
      return false;
    }
    if (depth_ == 1) current_ = name;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    const std::string what = error.what();
    const std::size_t last = what.rfind("; last read: ");
    const std::size_t start = what.find(": ", what.find("column"));
    const bool plain = start != std::string::npos && (last == std::string::npos || start + 2 < last);
    fault = "not valid JSON at byte " + std::to_string(position);
    if (plain) fault += ": " + what.substr(start + 2, last == std::string::npos ? last : last - start - 2);
    return false;
  }

 private:
  bool value(Field field) {
    if (depth_ == 1 && is_object) fields[current_] = std::move(field);
    return true;
  }
  bool close() {
    if (--depth_ == 1 && is_object) fields[current_] = {};
    return true;
  }

  std::vector<std::unordered_set<std::string>> keys_;
  std::string current_;
  int depth_ = 0;
};

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r\v\f") == std::string_view::npos; }

/// "1.0" and "1e2" name integers, "1.5" does not: the value without a fraction, if there is none.
std::optional<std::string> without_fraction(const Field& field) {
  if (field.kind == Field::Kind::text) return field.text;
  if (field.kind == Field::Kind::integer) return field.text;
  if (field.kind != Field::Kind::real) return std::nullopt;
  const double value = std::strtod(field.text.c_str(), nullptr);
  if (value != std::trunc(value)) return std::nullopt;
  return std::fabs(value) < 0x1p62 ? std::to_string(static_cast<std::int64_t>(value)) : field.text;
}

/// Moves one record out of its fields; the reason if it is none.
std::string take_record(const RecordReader& reader, Caption& record) {
  if (!reader.is_object) return "not a JSON object";
  const auto field = [&](const char* name) -> const Field* {
    const auto found = reader.fields.find(name);
    return found == reader.fields.end() ? nullptr : &found->second;
  };
  std::string reason;
  const auto add = [&](const std::string& what) { reason += (reason.empty() ? "" : ", ") + what; };
  if (const Field* caption = field("caption"); caption == nullptr) {
    add("key \"caption\" is missing");
  } else if (caption->kind != Field::Kind::text) {
    add("\"caption\" is not a string");
  } else {
    record.text = caption->text;
  }
  if (const Field* clip = field("clip_name"); clip == nullptr) {
    add("key \"clip_name\" is missing");
  } else if (clip->kind != Field::Kind::text && clip->kind != Field::Kind::integer) {
    add("\"clip_name\" is neither a string nor an integer");
  } else {
    record.clip = clip->text;
  }
  if (const Field* id = field("sen_id"); id != nullptr) {
    record.sen_id = without_fraction(*id);
    if (!record.sen_id) add("\"sen_id\" is neither an integer nor a string");
  }
  return reason;
}

/// The reason why a line is bad, or nothing and its record.
std::string read_line(std::string_view line, Caption& record, bool& sen_id_is_text) {
  if (line.starts_with(byte_order_mark)) return "a byte order mark inside the file";
  if (!is_utf8(line)) return "not valid UTF-8";
  if (line.find('\0') != std::string_view::npos) return "a zero byte";  // the parser would take it for the end
  RecordReader reader;
  if (!json::sax_parse(line, &reader)) return reader.fault;
  std::string reason = take_record(reader, record);
  if (record.sen_id) sen_id_is_text = reader.fields.at("sen_id").kind == Field::Kind::text;
  return reason;
}

/// Refuses what is no list of lines at all: another encoding, one array, one value over several lines, nothing.
void refuse_other_forms(const fs::path& file, std::string_view text) {
  const auto fault = [&](const std::string& what) {
    return content_error(file.string() + ": " + what + "; JSON lines are wanted: one object a line, UTF-8");
  };
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF") ||
      text.substr(0, 4).find('\0') != std::string_view::npos) {
    throw fault("the file is not UTF-8 (it looks like UTF-16 or UTF-32)");
  }
  const std::size_t first = text.find_first_not_of(" \t\r\n\v\f");
  if (first == std::string_view::npos) throw fault("the file holds no record");
  const std::string_view body = text.substr(first, text.find_last_not_of(" \t\r\n\v\f") - first + 1);
  if (body.find('\0') != std::string_view::npos) return;
  if (body.front() == '[' && json::accept(body)) throw fault("the file is one JSON array");
  if (body.front() == '{' && body.find('\n') != std::string_view::npos && json::accept(body)) {
    throw fault("the file is one JSON object over several lines");
  }
}

std::string report_of(const fs::path& file, const std::vector<LineNote>& notes, const std::string& what) {
  if (notes.empty()) return {};
  std::string text =
      file.string() + ": " + std::to_string(notes.size()) + " " + what + (notes.size() == 1 ? " line: " : " lines: ");
  for (std::size_t i = 0; i < notes.size(); ++i) {
    text += (i == 0 ? "line " : "; line ") + std::to_string(notes[i].line) + ": " + notes[i].reason;
  }
  return text;
}

}  // namespace

std::string CaptionFile::bad_report() const { return report_of(file, bad_lines, "bad"); }
std::string CaptionFile::warning_report() const { return report_of(file, warned_lines, "odd"); }

CaptionFile read_captions(const fs::path& file) {
  CaptionFile result;
  result.file = file;
  const std::string text = read_text(file);
  std::string_view rest = text;
  if (rest.starts_with(byte_order_mark)) rest.remove_prefix(byte_order_mark.size());
  refuse_other_forms(file, rest);
  std::map<std::pair<bool, std::string>, std::int64_t> seen;  // sen_id 1 and sen_id "1" differ
  for (std::int64_t line = 1; !rest.empty(); ++line) {
    const std::string_view content = take_line(rest);
    if (is_blank(content)) continue;
    Caption record;
    record.line = line;
    bool id_is_text = false;
    if (std::string reason = read_line(content, record, id_is_text); !reason.empty()) {
      result.bad_lines.push_back({line, std::move(reason)});
      continue;
    }
    if (record.text.empty()) result.warned_lines.push_back({line, "empty caption"});
    if (record.sen_id) {
      const auto [first, is_new] = seen.try_emplace({id_is_text, *record.sen_id}, line);
      if (!is_new) {
        result.warned_lines.push_back(
            {line, "sen_id " + *record.sen_id + " stands in line " + std::to_string(first->second) + " too"});
      }
    }
    result.records.push_back(std::move(record));
  }
  return result;
}

CaptionFile read_good_captions(const fs::path& file) {
  CaptionFile result = read_captions(file);
  if (!result.bad_lines.empty()) throw content_error(result.bad_report());
  return result;
}

std::vector<std::string> distinct_clips(const std::vector<Caption>& records) {
  std::vector<std::string> clips;
  std::unordered_set<std::string_view> seen;
  for (const Caption& record : records) {
    if (seen.insert(record.clip).second) clips.push_back(record.clip);
  }
  return clips;
}

ClipCheck check_clips(const std::vector<Caption>& records, const ClipFolder& folder, int threads,
                      const std::atomic<bool>* stop) {
  const std::vector<std::string> clips = distinct_clips(records);
  std::vector<std::optional<VideoSource>> sources(clips.size());
  std::vector<std::string> reasons(clips.size());
  for (std::size_t i = 0; i < clips.size(); ++i) {
    const bool leaves = leaves_folder(clips[i]);
    if (!leaves) sources[i] = folder.find(clips[i]);
    if (!sources[i]) reasons[i] = leaves ? "the name leaves the folder" : std::string("no such ") + folder.entry();
  }
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < clips.size(); i = next++) {
      if (!sources[i] || (stop != nullptr && *stop)) continue;
      try {
        (void)first_frame(*sources[i], {.stop = stop});
      } catch (const std::exception& error) {
        reasons[i] = error.what();
      }
    }
  };
  {
    std::vector<std::jthread> pool;
    for (int i = 1; i < threads; ++i) pool.emplace_back(work);
    work();
  }
  ClipCheck result;
  for (std::size_t i = 0; i < clips.size(); ++i) {
    if (!sources[i]) {
      result.missing.push_back({clips[i], reasons[i]});
    } else if (!reasons[i].empty()) {
      result.undecodable.push_back({clips[i], reasons[i]});
    } else {
      result.playable.push_back(clips[i]);
    }
  }
  return result;
}

std::string ClipCheck::report(const ClipFolder& folder) const {
  if (undecodable.empty() && missing.empty()) return {};
  std::string text = folder.folder().string() + ": " + std::to_string(playable.size()) + " clips play";
  const auto list = [&](const std::vector<ClipNote>& notes, const char* what) {
    if (notes.empty()) return;
    text += ", " + std::to_string(notes.size()) + " " + what + " (";
    for (std::size_t i = 0; i < notes.size(); ++i)
      text += (i == 0 ? "" : "; ") + notes[i].clip + ": " + notes[i].reason;
    text += ")";
  };
  list(undecodable, "cannot be decoded");
  list(missing, "are missing");
  return text;
}

}  // namespace clipbert::data
