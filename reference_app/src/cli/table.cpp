#include "cli/table.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace clipbert::cli {
namespace {

std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

template <class... A>
std::string print(const char* format, A... values) {
  char buffer[64];
  const int n = std::snprintf(buffer, sizeof buffer, format, values...);
  return {buffer, static_cast<std::size_t>(std::clamp(n, 0, 63))};
}

}  // namespace

std::string Table::text(int indent) const {
  std::vector<std::size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width(row[c]));
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line(static_cast<std::size_t>(indent), ' ');
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string space(widths[c] - width(row[c]), ' ');
      line += c == 0 ? row[c] + space : "  " + space + row[c];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  return out;
}

std::string fixed(double value, int digits) { return print("%.*f", digits, value); }

std::string megabytes(std::int64_t bytes) { return print("%.1f MB", static_cast<double>(bytes) / 1e6); }

std::string grouped(std::int64_t count) {
  std::string digits = std::to_string(count);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > (count < 0 ? 1 : 0); at -= 3) {
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return digits;
}

std::string number(double value) { return print("%.9g", value); }

std::string duration(double seconds) {
  if (seconds < 60) return print("%.1f s", seconds);
  const auto whole = static_cast<long long>(std::llround(seconds));
  if (whole < 3600) return print("%lld min %02lld s", whole / 60, whole % 60);
  return print("%lld h %02lld min", whole / 3600, whole % 3600 / 60);
}

}  // namespace clipbert::cli
