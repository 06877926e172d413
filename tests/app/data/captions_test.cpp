#include "data/captions.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <string>
#include <vector>

#include "app/data/support.hpp"
#include "config/errors.hpp"
#include "data/video_writer.hpp"

namespace data = clipbert::data;
using clipbert::content_error;
using test_support::counted_frames;
using test_support::has;
using test_support::message_of;
using test_support::TempFolder;

namespace {

const std::string good = R"({"caption": "a", "clip_name": "v1"})";

std::vector<std::int64_t> lines_of(const std::vector<data::LineNote>& notes) {
  std::vector<std::int64_t> lines;
  for (const auto& note : notes) lines.push_back(note.line);
  return lines;
}

/// The reason why this line is bad, empty if it is good.
std::string fault_of(const TempFolder& folder, const std::string& line) {
  const auto file = data::read_captions(folder.write("one.jsonl", good + "\n" + line + "\n" + good + "\n"));
  CHECK(file.records.size() == (file.bad_lines.empty() ? 3 : 2));
  return file.bad_lines.empty() ? "" : file.bad_lines[0].reason;
}

}  // namespace

TEST_SUITE("data/captions") {
  TEST_CASE("B75 every bad line is in one report, and a good file passes") {
    const TempFolder folder;
    const auto file = folder.write(
        "c.jsonl", good + "\n{\"clip_name\": \"v\"}\n\n{\"caption\": [\"a\"], \"clip_name\": 1.5}\nnot json\n");
    const data::CaptionFile captions = data::read_captions(file);
    CHECK(captions.records.size() == 1);
    CHECK(lines_of(captions.bad_lines) == std::vector<std::int64_t>{2, 4, 5});
    const std::string report = message_of<content_error>([&] { (void)data::read_good_captions(file); });
    CHECK(report == captions.bad_report());
    CHECK(has(report, file.string()));
    CHECK(has(report, "line 2: key \"caption\" is missing"));
    CHECK(has(report, "line 4: \"caption\" is not a string, \"clip_name\" is neither"));
    CHECK(has(report, "line 5: not valid JSON"));
    CHECK_FALSE(has(report, "\n"));
    CHECK(data::read_good_captions(folder.write("d.jsonl", good)).bad_report() == "");
  }

  TEST_CASE("B94 a byte order mark before the first record is no part of it") {
    const TempFolder folder;
    CHECK(data::read_captions(folder.write("c.jsonl", "\xEF\xBB\xBF" + good)).records.size() == 1);
    CHECK(has(fault_of(folder, "\xEF\xBB\xBF" + good), "byte order mark"));
  }

  TEST_CASE("B95 blank lines are skipped but counted, CR LF ends a line") {
    const TempFolder folder;
    const auto captions = data::read_captions(folder.write("c.jsonl", "\r\n  \t\n" + good + "\r\n\n" + good + "\n   "));
    REQUIRE(captions.records.size() == 2);
    CHECK(captions.records[0].line == 3);
    CHECK(captions.records[1].line == 5);
    CHECK(captions.records[1].clip == "v1");
  }

  TEST_CASE("what strict JSON forbids is a bad line") {
    const TempFolder folder;
    CHECK(fault_of(folder, R"({"caption": "b", "clip_name": "v2", "more": [1e3, null, {"a": true}]})") == "");
    CHECK(has(fault_of(folder, R"({"caption": "b", "clip_name": "v2",})"), "not valid JSON"));
    CHECK(has(fault_of(folder, R"({"caption": "b", "clip_name": "v2"} x)"), "not valid JSON"));
    CHECK(has(fault_of(folder, R"({"caption": "b", "clip_name": "v2", "caption": "c"})"), "\"caption\" stands twice"));
    CHECK(has(fault_of(folder, R"({"caption": "b", "clip_name": "v2", "x": {"k": 1, "k": 2}})"), "\"k\" stands twice"));
    CHECK(has(fault_of(folder, R"({"caption": "b\ud800", "clip_name": "v2"})"), "not valid JSON"));
    CHECK(has(fault_of(folder, "{\"caption\": \"caf\xE9\", \"clip_name\": \"v2\"}"), "UTF-8"));
    CHECK(has(fault_of(folder, good + std::string("\0", 1)), "zero byte"));
    CHECK(has(fault_of(folder, R"(["caption", "clip_name"])"), "not a JSON object"));
    CHECK(has(fault_of(folder, R"("caption")"), "not a JSON object"));
    CHECK(has(fault_of(folder, R"({"caption": {"caption": "b"}, "clip_name": "v2"})"), "not a string"));
    CHECK(has(fault_of(folder, std::string(100000, '[')), "not valid JSON"));
  }

  TEST_CASE("names and labels are taken as written") {
    const TempFolder folder;
    const auto captions =
        data::read_captions(folder.write("c.jsonl", R"({"caption": "\u732b \ud83c\udfb4", "clip_name": 12, "sen_id": 7}
{"clip_name": 123456789012345678901234567890, "caption": "", "sen_id": "7"}
{"caption": "c", "clip_name": "-1", "sen_id": 7.0}
)"));
    REQUIRE(captions.records.size() == 3);
    CHECK(captions.records[0].text == "猫 🎴");
    CHECK(captions.records[0].clip == "12");
    CHECK(captions.records[1].clip == "123456789012345678901234567890");
    CHECK(lines_of(captions.warned_lines) ==
          std::vector<std::int64_t>{2, 3});  // an empty caption; 7.0 repeats 7, "7" does not
    CHECK(has(captions.warning_report(), "line 2: empty caption"));
    CHECK(has(captions.warning_report(), "line 3: sen_id 7 stands in line 1 too"));
    CHECK(has(fault_of(folder, R"({"caption": "b", "clip_name": "v2", "sen_id": 1.5})"), "sen_id"));
    CHECK(has(fault_of(folder, R"({"caption": "b", "clip_name": "v2", "sen_id": true})"), "sen_id"));
  }

  TEST_CASE("a file of another form is one error") {
    const TempFolder folder;
    const auto refused = [&](const std::string& text) {
      const auto file = folder.write("c.jsonl", text);
      const std::string message = message_of<content_error>([&] { (void)data::read_captions(file); });
      CHECK(has(message, file.string()));
      return message;
    };
    CHECK(has(refused(""), "no record"));
    CHECK(has(refused("\n \r\n"), "no record"));
    CHECK(has(refused("[\n" + good + ",\n" + good + "\n]\n"), "array"));
    CHECK(has(refused("{\n\"caption\": \"a\",\n\"clip_name\": \"b\"\n}\n"), "several lines"));
    CHECK(has(refused(std::string("\xFF\xFE{\0\n\0", 6)), "UTF-16"));
    CHECK(has(refused(std::string("{\0\"\0", 4)), "UTF-16"));
  }

  TEST_CASE("a pipe is no caption file") {
    const TempFolder folder;
    REQUIRE(mkfifo((folder.path() / "t.jsonl").c_str(), 0600) == 0);
    const auto read = [&] { (void)data::read_captions(folder.path() / "t.jsonl"); };
    CHECK(has(message_of<content_error>(read), "no regular file"));
  }

  TEST_CASE("clips are sorted into playable, undecodable and missing, each once") {
    const TempFolder folder;
    data::write_h264(folder.path() / "good.mp4", counted_frames(3));
    folder.write("broken.mp4", "not a video");
    std::vector<data::Caption> records;
    for (const char* clip : {"good", "broken", "good", "gone", "../good"}) records.push_back({"a", clip, {}, 1});
    const data::ClipFolder clips(folder.path());
    for (const int threads : {1, 3}) {
      const data::ClipCheck check = data::check_clips(records, clips, threads);
      CHECK(check.playable == std::vector<std::string>{"good"});
      REQUIRE(check.undecodable.size() == 1);
      CHECK(check.undecodable[0].clip == "broken");
      REQUIRE(check.missing.size() == 2);
      CHECK(check.missing[0].clip == "gone");
      CHECK(has(check.missing[1].reason, "leaves"));
      const std::string report = check.report(clips);
      for (const char* part : {"1 clips play", "1 cannot be decoded", "broken", "2 are missing", "gone"})
        CHECK(has(report, part));
    }
  }
}
