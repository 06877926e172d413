#include "log/chart.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

namespace clipbert::log {
namespace {

constexpr double width = 640, height = 240, left = 64, right = 12, top = 30, bottom = 26;
constexpr std::array<std::string_view, 6> colours{"#2a7de1", "#e1702a", "#2aa84a", "#a22ae1", "#777777", "#c0a000"};

std::string short_text(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

using Points = std::vector<std::pair<double, double>>;

/// What of a curve can be drawn.
Points drawable(const Curve& curve, bool logarithmic) {
  Points out;
  for (const auto& [step, value] : curve) {
    const double y = logarithmic ? std::log2(value) : value;
    if (std::isfinite(y)) out.emplace_back(static_cast<double>(step), y);
  }
  return out;
}

struct Frame {
  double x_low = std::numeric_limits<double>::max(), x_high = std::numeric_limits<double>::lowest();
  double y_low = x_low, y_high = x_high;

  void include(const Points& points) {
    for (const auto& [x, y] : points) {
      x_low = std::min(x_low, x), x_high = std::max(x_high, x);
      y_low = std::min(y_low, y), y_high = std::max(y_high, y);
    }
  }
  [[nodiscard]] double across(double x) const {
    return left + (x_high > x_low ? (x - x_low) / (x_high - x_low) : 0.5) * (width - left - right);
  }
  [[nodiscard]] double down(double y) const {
    return height - bottom - (y_high > y_low ? (y - y_low) / (y_high - y_low) : 0.5) * (height - top - bottom);
  }
};

/// The lowest and highest point of each column of pixels, in their order.
Points thinned(const Points& points, const Frame& frame) {
  Points out;
  for (std::size_t i = 0; i < points.size();) {
    const double column = std::floor(frame.across(points[i].first));
    std::size_t end = i, low = i, high = i;
    for (; end < points.size() && std::floor(frame.across(points[end].first)) == column; ++end) {
      if (points[end].second < points[low].second) low = end;
      if (points[end].second > points[high].second) high = end;
    }
    out.push_back(points[std::min(low, high)]);
    if (low != high) out.push_back(points[std::max(low, high)]);
    i = end;
  }
  return out;
}

std::string text_at(double x, double y, const std::string& anchor, const std::string& text, std::string_view colour) {
  return "<text x=\"" + short_text(x) + "\" y=\"" + short_text(y) + "\" text-anchor=\"" + anchor + "\" fill=\"" +
         std::string(colour) + "\">" + html_escaped(text) + "</text>";
}

}  // namespace

std::string html_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

std::string svg_chart(const std::string& title, const std::vector<Line>& lines, bool logarithmic) {
  std::vector<std::pair<std::string, Points>> drawn;
  Frame frame;
  for (const auto& line : lines) {
    auto points = drawable(line.points, logarithmic);
    if (points.empty()) continue;
    frame.include(points);
    drawn.emplace_back(line.name, std::move(points));
  }
  if (drawn.empty()) return {};
  const auto shown = [&](double y) { return short_text(logarithmic ? std::exp2(y) : y); };
  constexpr std::string_view grey = "#888";
  std::string out = "<svg viewBox=\"0 0 " + short_text(width) + " " + short_text(height) +
                    "\" font-family=\"system-ui,sans-serif\" font-size=\"11\">";
  out += text_at(left, 14, "start", title, "currentColor");
  out += "<path fill=\"none\" stroke=\"#8888\" d=\"M" + short_text(left) + " " + short_text(top) + "V" +
         short_text(height - bottom) + "H" + short_text(width - right) + "\"/>";
  out += text_at(left - 4, frame.down(frame.y_low), "end", shown(frame.y_low), grey);
  if (frame.y_high > frame.y_low)
    out += text_at(left - 4, frame.down(frame.y_high) + 8, "end", shown(frame.y_high), grey);
  out += text_at(left, height - 8, "start", "step " + short_text(frame.x_low), grey);
  if (frame.x_high > frame.x_low) out += text_at(width - right, height - 8, "end", short_text(frame.x_high), grey);
  double name_at = width - right;
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const auto colour = colours[i % colours.size()];
    const auto points = thinned(drawn[i].second, frame);
    std::string path;
    for (const auto& [x, y] : points) path += short_text(frame.across(x)) + "," + short_text(frame.down(y)) + " ";
    out += points.size() == 1 ? "<circle r=\"2.5\" fill=\"" + std::string(colour) + "\" cx=\"" +
                                    short_text(frame.across(points[0].first)) + "\" cy=\"" +
                                    short_text(frame.down(points[0].second)) + "\"/>"
                              : "<polyline fill=\"none\" stroke=\"" + std::string(colour) +
                                    "\" stroke-width=\"1.3\" points=\"" + path + "\"/>";
    out += text_at(name_at, 14, "end", drawn[i].first, colour);
    name_at -= 8 + 6.5 * static_cast<double>(drawn[i].first.size());
  }
  return out + "</svg>\n";
}

}  // namespace clipbert::log
