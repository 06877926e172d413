#include "eval/feature_index.hpp"

#include <doctest/doctest.h>
#include <torch/torch.h>

#include <fstream>
#include <iterator>

#include "config/errors.hpp"
#include "support/temp_folder.hpp"

using namespace clipbert;
namespace fs = std::filesystem;

namespace {

/// A file in a folder that goes with it.
struct Place {
  test_support::TempFolder folder;
  fs::path file = folder / "i.index";
};

const eval::IndexOrigin origin{.model = "m", .settings = "s", .n_clips = 2, .weights = "w.pt", .folder = "v\xFF"};

at::Tensor grid(int seed) {
  torch::manual_seed(seed);
  return at::randn({2, 3, 3, 8}).to(at::kBFloat16);
}

void write(const fs::path& file) {
  eval::IndexWriter writer(file, origin);
  writer.add({"a.mp4", {10, 20}, "", grid(1), "jpeg a"});
  writer.add({"b \xFE.mp4", {11, 21}, "broken at its end", grid(2), ""});
  writer.commit({{"c.mp4", "moov atom not found"}});
}

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_SUITE("eval/feature_index") {
  TEST_CASE("an index gives back every bit and name that was written") {
    const Place place;
    write(place.file);
    const eval::FeatureIndex index(place.file);
    CHECK(index.names() == std::vector<std::string>{"a.mp4", "b \xFE.mp4"});
    CHECK(at::equal(index.grids(0, 2), at::stack({grid(1), grid(2)})));
    CHECK(at::equal(index.grids(1, 2)[0], grid(2)));
    CHECK(index.picture(0) == "jpeg a");
    CHECK(index.picture(1).empty());
    REQUIRE(index.unreadable().size() == 1);
    CHECK(index.unreadable()[0].reason == "moov atom not found");
    REQUIRE(index.damaged().size() == 1);
    CHECK(index.damaged()[0].reason == "broken at its end");
    CHECK(index.origin().folder == "v\xFF");
    CHECK(index.find("a.mp4", {10, 20}).has_value());
    CHECK_FALSE(index.find("a.mp4", {10, 21}).has_value());
    CHECK_FALSE(index.find("z.mp4", {10, 20}).has_value());
  }

  TEST_CASE("an index that is cut anywhere or has any byte changed is refused when it is opened or read") {
    const Place place;
    write(place.file);
    const std::string whole = bytes_of(place.file);
    const auto refused = [&](const std::string& bytes) {
      std::ofstream(place.file, std::ios::binary | std::ios::trunc) << bytes;
      try {
        const eval::FeatureIndex index(place.file);
        static_cast<void>(index.grids(0, 2));
        static_cast<void>(index.picture(0));
      } catch (const content_error& error) {
        return std::string(error.what()).find("i.index") != std::string::npos;
      }
      return false;
    };
    CHECK_FALSE(refused(whole));
    std::size_t accepted = 0;
    for (std::size_t cut = 0; cut < whole.size(); cut += 7) accepted += refused(whole.substr(0, cut)) ? 0 : 1;
    for (std::size_t at = 0; at < whole.size(); ++at) {
      if (at >= 12 && at < 16) continue;  // not used
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ 4);
      accepted += refused(bytes) ? 0 : 1;
    }
    CHECK(accepted == 0);
  }

  TEST_CASE("without commit nothing appears in the place, and grids of another shape are refused") {
    const Place place;
    {
      eval::IndexWriter writer(place.file, origin);
      writer.add({"a.mp4", {}, "", grid(1), ""});
      CHECK_THROWS_AS(writer.add({"b.mp4", {}, "", at::zeros({1, 3, 3, 8}), ""}), content_error);
    }
    CHECK(fs::is_empty(place.folder.path()));
  }
}
