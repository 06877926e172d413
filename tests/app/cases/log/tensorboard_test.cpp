#include "log/tensorboard.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "app/cases/manifest.hpp"
#include "config/errors.hpp"

using namespace clipbert::log;

namespace {

void check_events(const EventFile& read, const nlohmann::json& expected) {
  std::set<std::string> tags;
  std::vector<std::int64_t> steps, nonfinite;
  for (const auto& event : read.events)
    for (const auto& [tag, value] : event.scalars) {
      tags.insert(tag);
      steps.push_back(event.step);
      if (!std::isfinite(value)) nonfinite.push_back(event.step);
    }
  CHECK(read.events.size() == expected.at("records_good"));
  CHECK(steps.size() == expected.at("scalars"));
  CHECK(nlohmann::json(tags) == expected.at("tags"));
  CHECK(nlohmann::json(steps) == expected.at("steps"));
  CHECK(nlohmann::json(nonfinite) == expected.at("nonfinite_steps"));
  CHECK(read.bad_record.has_value() == expected.at("bad_record"));
}

}  // namespace

TEST_SUITE("cases/tb") {
  TEST_CASE("each shared event file is read up to its first bad record") {
    for (const auto& one : test_support::cases_of("tb")) {
      CAPTURE(one.name);
      const auto read = read_events(one.file);
      check_events(read, one.expected());
      if (!read.bad_record) {
        CHECK(one.allows("ok"));
      } else {
        CHECK((one.allows("warn") || one.allows("error")));
        test_support::check_message(one, *read.bad_record);
      }
    }
  }
}
