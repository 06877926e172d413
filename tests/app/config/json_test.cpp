#include "config/json.hpp"

#include <doctest/doctest.h>

#include "config/errors.hpp"

using clipbert::config::parse_json;

namespace {

std::string refusal(std::string_view text) {
  try {
    static_cast<void>(parse_json(text, "f.json"));
  } catch (const clipbert::usage_error& e) {
    return e.what();
  }
  return "accepted";
}

}  // namespace

TEST_SUITE("config/json") {
  TEST_CASE("keys keep their order and know their lines") {
    const auto document = parse_json("{\n\"b\": 1,\n\"a\": {\"c\":\n [1, {\"d\": 2}]}}", "f.json");
    CHECK(document.root.dump() == R"({"b":1,"a":{"c":[1,{"d":2}]}})");
    CHECK(document.lines.at("b") == 2);
    CHECK(document.lines.at("a") == 3);
    CHECK(document.lines.at("a.c") == 3);
    CHECK(document.lines.at("a.c[1].d") == 4);
  }

  TEST_CASE("B94 a byte order mark is accepted and does not shift lines") {
    const auto document = parse_json("\xEF\xBB\xBF{\n\"a\": 1}", "f.json");
    CHECK(document.root == clipbert::config::Json{{"a", 1}});
    CHECK(document.lines.at("a") == 2);
  }

  TEST_CASE("comments and trailing commas are refused with their line") {
    CHECK(refusal("{\n// no\n\"a\": 1}") == "f.json:2: comments are not JSON; remove it");
    CHECK(refusal("{\"a\": 1, /* no */\n\"b\": 1}") == "f.json:1: comments are not JSON; remove it");
    CHECK(refusal("{\n\"a\": 1,\n}") == "f.json:3: a comma before '}' is not JSON; remove it");
    CHECK(refusal("{\"a\": [1,\n 2, ]}") == "f.json:2: a comma before ']' is not JSON; remove it");
  }

  TEST_CASE("keys that stand twice are all reported, with both lines, at any depth") {
    CHECK(refusal("{\"a\": 1,\n\"b\": {\"c\": 1,\n\"c\": 2},\n\"a\": 3}") ==
          "f.json:3: key b.c stands twice, first in line 2; keep one; line 4: key a stands twice, first in line 1; "
          "keep one");
    CHECK(refusal("{\"a\": {\"x\": 1}, \"b\": {\"x\": 1}, \"c\": [{\"x\": 1}, {\"x\": 1}]}") == "accepted");
  }

  TEST_CASE("what is not JSON is refused in one line") {
    for (const auto* text : {"", "{", "{'a': 1}", "{\"a\": 1} x", "{\"a\": NaN}", "{\"a\": 1e999}", "{\"a\": 01}",
                             "{\"a\": \"\xff\"}", "{\"a\": \"\\ud800\"}", "{\"a\": tru}", "{\"a\" 1}", "\"a"}) {
      const auto message = refusal(text);
      CAPTURE(message);
      CHECK(message.starts_with("f.json:1: "));
      CHECK(message.find('\n') == std::string::npos);
    }
    CHECK(refusal(std::string(1000, '[')).find("nested more than 64 deep") != std::string::npos);
  }
}
