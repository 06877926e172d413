#include "data/captions.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "app/cases/manifest.hpp"
#include "config/errors.hpp"
#include "data/utf8.hpp"

namespace data = clipbert::data;
using nlohmann::json;
using test_support::Case;

namespace {

std::string hex_of(const std::string& text) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string result;
  for (const unsigned char byte : text) result += {digits[byte >> 4], digits[byte & 15]};
  return result;
}

json lines_of(const std::vector<data::LineNote>& notes) {
  json lines = json::array();
  for (const auto& note : notes) {
    if (lines.empty() || lines.back() != note.line) lines.push_back(note.line);
  }
  return lines;
}

json names_of(const std::vector<data::ClipNote>& notes) {
  json names = json::array();
  for (const auto& note : notes) names.push_back(note.clip);
  return names;
}

json sorted(json list) {
  std::sort(list.begin(), list.end());
  return list;
}

bool names_line(const std::string& message, const json& line) {
  return (message + ";").find("line " + std::to_string(line.get<int>()) + ":") != std::string::npos;
}

void check_records(const data::CaptionFile& file, const json& expected) {
  CHECK(file.records.size() == expected["records"].get<std::size_t>());
  CHECK(lines_of(file.bad_lines) == expected["bad_lines"]);
  for (const json& line : expected["bad_lines"]) CHECK(names_line(file.bad_report(), line));
  for (const json& line : expected["warned_lines"]) CHECK(names_line(file.warning_report(), line));
  json captions = json::array(), clips = json::array();
  for (const auto& record : file.records) captions.push_back(hex_of(record.text)), clips.push_back(record.clip);
  if (!expected["captions_utf8_hex"].is_null()) CHECK(captions == expected["captions_utf8_hex"]);
  CHECK(clips == expected["clip_names"]);
}

void check_clips(const data::CaptionFile& file, const Case& one) {
  const json& expected = one.expected();
  if (expected["img_root"].is_null()) return;
  const data::ClipFolder folder(test_support::cases_folder() / expected["img_root"].get<std::string>());
  const data::ClipCheck check = data::check_clips(file.records, folder, 2);
  CHECK(sorted(check.playable) == sorted(expected["playable"]));
  CHECK(sorted(names_of(check.undecodable)) == sorted(expected["undecodable"]));
  CHECK(sorted(names_of(check.missing)) == sorted(expected["missing"]));
  const std::string report = check.report(folder);
  for (const auto* list : {"undecodable", "missing"}) {
    for (const json& name : expected[list]) CHECK(report.find(name.get<std::string>()) != std::string::npos);
  }
}

}  // namespace

TEST_SUITE("cases/jsonl") {
  TEST_CASE("each caption file of the manifest is read as it says") {
    for (const Case& one : test_support::cases_of("jsonl")) {
      CAPTURE(one.name);
      try {
        const data::CaptionFile file = data::read_captions(one.file);
        const bool bad = !file.bad_lines.empty(), warned = !file.warned_lines.empty();
        test_support::check_outcome(one,
                                    bad      ? "error"
                                    : warned ? "warn"
                                             : "ok",
                                    bad ? file.bad_report() : file.warning_report());
        check_records(file, one.expected());
        check_clips(file, one);
      } catch (const clipbert::content_error& error) {
        test_support::check_outcome(one, "error", error.what());
        CHECK(one.expected()["records"] == 0);
        CHECK(one.expected()["bad_lines"].empty());
      }
    }
  }
}
