/// Curves as pictures in a page that needs no other file.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "log/tensorboard.hpp"

namespace clipbert::log {

/// Text as HTML shows it.
[[nodiscard]] std::string html_escaped(std::string_view text);

/// One line of a chart.
struct Line {
  std::string name;
  Curve points;  ///< those that are no finite number are left out
};

/// An SVG element with axes, the largest and smallest values written out, and the lines' names; long curves are thinned
/// out to the lowest and highest value of each pixel. Empty if no line has a point.
/// logarithmic  the vertical axis shows powers of two; values that are not above 0 are left out
[[nodiscard]] std::string svg_chart(const std::string& title, const std::vector<Line>& lines, bool logarithmic = false);

}  // namespace clipbert::log
