#include "log/chart.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

using namespace clipbert::log;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// The points of the first line.
std::size_t points_of(const std::string& svg) {
  const auto begin = svg.find("points=\"") + 8;
  return count_of(svg.substr(begin, svg.find('"', begin) - begin), ",");
}

}  // namespace

TEST_SUITE("log/chart") {
  TEST_CASE("text is escaped where HTML would read it as its own") {
    CHECK(html_escaped("a < b & \"c\" > d") == "a &lt; b &amp; &quot;c&quot; &gt; d");
    CHECK(has(svg_chart("<title>", {{"x", {{1, 2}, {2, 3}}}}), "&lt;title&gt;"));
  }
  TEST_CASE("a chart tells its ends, has a line per curve, and leaves out what is no number") {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const auto svg =
        svg_chart("loss", {{"a", {{1, 4}, {2, nan}, {9, 0.5}}}, {"b", {{3, 1}, {4, 2}}}, {"none", {{5, nan}}}});
    for (const char* part : {"loss", ">4<", ">0.5<", ">step 1<", ">9<", ">a<", ">b<"})
      CHECK_MESSAGE(has(svg, part), part);
    CHECK(count_of(svg, "<polyline") == 2);
    CHECK_FALSE(has(svg, "none<"));
    CHECK_FALSE(has(svg, "nan"));
    CHECK(points_of(svg) == 2);
  }
  TEST_CASE("curves that rise are drawn upwards, on a logarithmic axis by powers of two") {
    const auto svg = svg_chart("scale", {{"s", {{0, 1}, {1, 4}, {2, 16}}}}, true);
    CHECK(has(svg, "points=\"64,214 346,122 628,30 \""));  // 64 to 628 across, 214 up to 30
    CHECK(has(svg, ">16<"));
    CHECK(svg_chart("scale", {{"s", {{0, 0}, {1, -1}}}}, true).empty());
  }
  TEST_CASE("a long curve is thinned out, and no peak is lost") {
    Curve curve;
    for (std::int64_t i = 0; i < 100000; ++i)
      curve.emplace_back(i, i == 54321 ? 77.0 : std::sin(static_cast<double>(i)));
    const auto svg = svg_chart("long", {{"x", curve}});
    CHECK(points_of(svg) <= 2 * 640);
    CHECK(has(svg, ">77<"));
    CHECK(has(svg, ",30 "));  // the top of the frame is reached
  }
  TEST_CASE("one point is a dot, no point is no chart") {
    CHECK(has(svg_chart("t", {{"x", {{5, 1}}}}), "<circle"));
    CHECK(svg_chart("t", {}).empty());
    CHECK(svg_chart("t", {{"x", {}}}).empty());
  }
}
