/// The README's loop is examples/readme_eigen.cpp, built and run as it stands.
#include <doctest/doctest.h>

#define main readme_eigen_main
#include "../examples/readme_eigen.cpp"
#undef main

#include <fstream>
#include <iterator>
#include <string>

TEST_SUITE("eigen/readme") {
  TEST_CASE("the README's Eigen loop trains: the weights come to what they shall be") {
    CHECK(readme_eigen_main() == 0);
  }

  TEST_CASE("the region that the README shows is marked, and the README shows it") {
    const auto read = [](const char* path) {
      std::ifstream in(path);
      return std::string(std::istreambuf_iterator<char>(in), {});
    };
    const std::string source = read("examples/readme_eigen.cpp"), tag = "// [readme]\n";
    const auto begin = source.find(tag), end = source.rfind(tag);
    REQUIRE(begin != std::string::npos);
    REQUIRE(end > begin);
    const std::string region = source.substr(begin + tag.size(), end - begin - tag.size());
    const std::string readme = read("README.md");
    if (!readme.empty()) CHECK(readme.find(region) != std::string::npos);
  }
}
