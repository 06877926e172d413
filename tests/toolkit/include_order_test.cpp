/// The layers of include/amp: a header includes only lower rows or its own, and the core names no tensor library.
/// The rows are read from the table of docs/design.md, which is their only list.
#include <doctest/doctest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace {

const std::filesystem::path root = "include/amp";

/// "core/" -> 0, "half_traits.hpp" -> 1, ...: the code spans of each line "| 0 | `core/` | ... |".
std::map<std::string, int> read_rows() {
  std::map<std::string, int> rows;
  std::ifstream in("docs/design.md");
  for (std::string line; std::getline(in, line);) {
    if (line.size() < 4 || line[0] != '|' || line[2] < '0' || line[2] > '9') continue;
    const int row = std::stoi(line.substr(2));
    const auto second = line.find('|', 1), third = line.find('|', second + 1);
    const std::string headers = line.substr(second, third - second);
    for (auto at = headers.find('`'); at != std::string::npos;) {
      const auto end = headers.find('`', at + 1);
      rows[headers.substr(at + 1, end - at - 1)] = row;
      at = headers.find('`', end + 1);
    }
  }
  return rows;
}
/// Row of a header by its path below include/amp, -1 if the table lacks it.
int row_of(const std::string& path) {
  static const auto rows = read_rows();
  const auto slash = path.find('/');
  const auto it = rows.find(slash == std::string::npos ? path : path.substr(0, slash + 1));
  return it == rows.end() ? -1 : it->second;
}
bool opt_in(const std::string& path) { return path.starts_with("adapters/") || path.starts_with("cuda/"); }

std::vector<std::string> headers() {
  std::vector<std::string> all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root))
    if (entry.path().extension() == ".hpp")
      all.push_back(std::filesystem::relative(entry.path(), root).generic_string());
  return all;
}

struct Include {
  std::string from, to;
  bool brackets;
};
std::vector<Include> includes_of_the_toolkit() {
  std::vector<Include> all;
  for (const auto& header : headers()) {
    std::ifstream in(root / header);
    for (std::string line; std::getline(in, line);) {
      if (!line.starts_with("#include")) continue;
      const auto open = line.find_first_of("<\""), close = line.find_first_of(">\"", open + 1);
      all.push_back({header, line.substr(open + 1, close - open - 1), line[open] == '<'});
    }
  }
  return all;
}
/// The text of a file without its // comments.
std::string code_of(const std::filesystem::path& path) {
  std::string code;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) code += line.substr(0, line.find("//")) + '\n';
  return code;
}

}  // namespace

TEST_SUITE("toolkit/include_order") {
  TEST_CASE("X1 every header has a row, and includes no higher one") {
    const auto includes = includes_of_the_toolkit();
    REQUIRE(includes.size() > 20);
    for (const auto& [from, to, brackets] : includes) {
      CAPTURE(from);
      CAPTURE(to);
      if (!opt_in(from)) CHECK(row_of(from) >= 0);
      if (!to.starts_with("amp/")) continue;
      const std::string target = to.substr(4);
      CHECK(std::filesystem::exists(root / target));
      if (opt_in(from)) continue;  // may include any row
      CHECK_MESSAGE(!opt_in(target), "no row includes an opt-in header");
      CHECK(row_of(target) <= row_of(from));
    }
  }

  TEST_CASE("X1 the umbrella reaches every header that is not opt-in") {
    std::multimap<std::string, std::string> edges;
    for (const auto& [from, to, brackets] : includes_of_the_toolkit())
      if (to.starts_with("amp/")) edges.emplace(from, to.substr(4));
    std::set<std::string> reached{"amp.hpp"};
    for (std::vector<std::string> open{"amp.hpp"}; !open.empty();) {
      const std::string from = open.back();
      open.pop_back();
      const auto [begin, end] = edges.equal_range(from);
      for (auto it = begin; it != end; ++it)
        if (reached.insert(it->second).second) open.push_back(it->second);
    }
    for (const auto& header : headers())
      if (!opt_in(header)) CHECK_MESSAGE(reached.contains(header), header);
  }

  TEST_CASE("every row of the table is there: folders and headers") {
    const auto rows = read_rows();
    CHECK(rows.size() > 12);
    for (const auto& [name, row] : rows) CHECK_MESSAGE(std::filesystem::exists(root / name), name);
  }

  TEST_CASE("opt_level.hpp needs rows 0 and 1 alone, so that tools can read levels without the toolkit") {
    for (const auto& [from, to, brackets] : includes_of_the_toolkit())
      if (from == "opt_level.hpp" && to.starts_with("amp/")) CHECK_MESSAGE(row_of(to.substr(4)) <= 1, to);
  }

  TEST_CASE("headers include in angle brackets, never by a relative path") {
    for (const auto& [from, to, brackets] : includes_of_the_toolkit()) {
      CHECK_MESSAGE(brackets, from);
      CHECK_MESSAGE(to.find("..") == std::string::npos, from);
    }
  }

  TEST_CASE("X1 X5 the core names no tensor library, no device header and no other package") {
    for (const auto& header : headers()) {
      if (opt_in(header)) continue;
      const std::string code = code_of(root / header);
      for (const std::string_view name :
           {"torch::", "torch/", "at::Tensor", "ATen/", "c10::", "c10/", "Eigen", "cuda_", "omp.h", "cblas", "dnnl"})
        CHECK_MESSAGE(code.find(name) == std::string::npos, header << " names " << name);
    }
  }

  TEST_CASE("X2 no header prints, reads the environment or ends the program") {
    for (const auto& header : headers()) {
      const std::string code = code_of(root / header);
      for (const std::string_view call : {"exit(", "abort(", "terminate(", "printf(", "puts(", "putchar(", "perror(",
                                          "fwrite(", "cout", "cerr", "clog", "getenv(", "assert("}) {
        for (auto at = code.find(call); at != std::string::npos; at = code.find(call, at + 1)) {
          const bool part_of_a_name =
              at > 0 && (std::isalnum(static_cast<unsigned char>(code[at - 1])) != 0 || code[at - 1] == '_');
          CHECK_MESSAGE(part_of_a_name, header << " calls " << call);
        }
      }
    }
  }

  TEST_CASE(
      "X1 only core/config.hpp defines macros, and no header includes a stream, a regex or a map of the standard's") {
    for (const auto& header : headers()) {
      const std::string code = code_of(root / header);
      if (header != "core/config.hpp")
        CHECK_MESSAGE((code.find("#define ") == std::string::npos || opt_in(header)), header);
      if (opt_in(header)) continue;
      for (const std::string_view costly : {"<iostream>", "<sstream>", "<iomanip>", "<regex>", "<format>", "<random>",
                                            "<filesystem>", "<future>", "<chrono>"})
        CHECK_MESSAGE(code.find(costly) == std::string::npos, header << " includes " << costly);
      if (row_of(header) < 4)
        for (const std::string_view costly : {"<thread>", "<functional>", "<mutex>"})
          CHECK_MESSAGE(code.find(costly) == std::string::npos, header << " includes " << costly);
    }
  }
}
