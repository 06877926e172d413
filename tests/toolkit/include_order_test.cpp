/// The layers of include/amp: a header includes only lower rows or its own, and the core names no tensor library.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <vector>

namespace {

/// Row of a header by its path below include/amp; folders first, then the notions that stand at the top.
int row_of(const std::string& path) {
  static const std::map<std::string, int> folders{
      {"core", 0},  {"formats", 1}, {"simd", 2},    {"tensor", 3},         {"apply", 4}, {"fn", 5},
      {"optim", 6}, {"nn", 6},      {"scaling", 7}, {"master_weights", 8}, {"cast", 9},  {"session", 10}};
  static const std::map<std::string, int> tops{
      {"half_traits.hpp", 1}, {"multi_tensor_apply.hpp", 4}, {"loss_scaler.hpp", 7}, {"master_weights.hpp", 8},
      {"opt_level.hpp", 9},   {"session.hpp", 10},           {"state_dict.hpp", 10}, {"amp.hpp", 11}};
  const auto slash = path.find('/');
  if (slash == std::string::npos) {
    const auto it = tops.find(path);
    return it == tops.end() ? -1 : it->second;
  }
  const auto it = folders.find(path.substr(0, slash));
  return it == folders.end() ? -1 : it->second;
}
bool opt_in(const std::string& path) { return path.starts_with("adapters/") || path.starts_with("cuda/"); }

struct Include {
  std::string from, to;
};
std::vector<Include> includes_of_the_toolkit() {
  const std::filesystem::path root = "include/amp";
  std::vector<Include> all;
  const std::regex line_form(R"(^\s*#\s*include\s*[<"]([^>"]+)[>"].*)");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.path().extension() != ".hpp") continue;
    std::ifstream in(entry.path());
    std::smatch match;
    for (std::string line; std::getline(in, line);)
      if (std::regex_match(line, match, line_form))
        all.push_back({std::filesystem::relative(entry.path(), root).generic_string(), match[1].str()});
  }
  return all;
}

}  // namespace

TEST_SUITE("toolkit/include_order") {
  TEST_CASE("every header has a row, and includes no higher one") {
    const auto includes = includes_of_the_toolkit();
    REQUIRE(includes.size() > 20);
    for (const auto& [from, to] : includes) {
      CAPTURE(from);
      CAPTURE(to);
      if (!opt_in(from)) CHECK(row_of(from) >= 0);
      if (!to.starts_with("amp/")) continue;
      const std::string target = to.substr(4);
      CHECK(std::filesystem::exists("include/amp/" + target));
      if (opt_in(from)) continue;  // may include any row
      CHECK_MESSAGE(!opt_in(target), "no row includes an opt-in header");
      CHECK(row_of(target) <= row_of(from));
    }
  }

  TEST_CASE("opt_level.hpp needs rows 0 and 1 alone, so that tools can read levels without the toolkit") {
    for (const auto& [from, to] : includes_of_the_toolkit())
      if (from == "opt_level.hpp" && to.starts_with("amp/")) CHECK_MESSAGE(row_of(to.substr(4)) <= 1, to);
  }

  TEST_CASE("headers of the project are included in angle brackets, and never by a relative path") {
    for (const auto& [from, to] : includes_of_the_toolkit()) CHECK_MESSAGE(to.find("..") == std::string::npos, from);
  }

  TEST_CASE("the core includes no tensor library, no device header and no other package") {
    for (const auto& [from, to] : includes_of_the_toolkit()) {
      if (opt_in(from)) continue;
      CAPTURE(from);
      CAPTURE(to);
      CHECK(to.find("torch") == std::string::npos);
      CHECK(to.find("ATen") == std::string::npos);
      CHECK(to.find("c10") == std::string::npos);
      CHECK(to.find("Eigen") == std::string::npos);
      CHECK(to.find("cuda") == std::string::npos);
    }
  }
}
