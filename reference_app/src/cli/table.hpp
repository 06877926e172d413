/// Plain text tables for the terminal.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace clipbert::cli {

/// Rows of words under a head; the first column is set left, the others right.
class Table {
 public:
  explicit Table(std::vector<std::string> head) { rows_.push_back(std::move(head)); }
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  /// The table with `indent` spaces before each line; widths count UTF-8 characters, not bytes.
  [[nodiscard]] std::string text(int indent = 0) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// A number with `digits` decimals.
[[nodiscard]] std::string fixed(double value, int digits);

/// A count of bytes as "12.3 MB" (10^6 bytes).
[[nodiscard]] std::string megabytes(std::int64_t bytes);

/// A count with a comma every three digits.
[[nodiscard]] std::string grouped(std::int64_t count);

/// A rate as it is read: "0.0005", "1e-05".
[[nodiscard]] std::string number(double value);

/// Seconds as "1 h 02 min", "3 min 05 s" or "4.2 s".
[[nodiscard]] std::string duration(double seconds);

}  // namespace clipbert::cli
