// README's section "Your own data": its commands, word for word, on videos that others made.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>

#include "support/shared_data.hpp"
#include "tiny.hpp"

namespace fs = std::filesystem;
using test_support::Folder;
using test_support::has;
using test_support::read_text;

namespace {

/// The first shell block below a heading of README.md.
std::string commands_below(const std::string& heading) {
  const std::string text = read_text("README.md");
  const auto section = text.find("\n" + heading + "\n");
  REQUIRE(section != std::string::npos);
  const std::string open = "```bash\n";
  const auto begin = text.find(open, section) + open.size();
  return text.substr(begin, text.find("```", begin) - begin);
}

/// `videos` and `captions.jsonl` of the shared videos that are sound. -> how many
int write_data(const Folder& folder) {
  const auto cases = test_support::cases_folder();
  fs::create_directories(folder / "videos");
  std::string captions;
  int count = 0;
  const auto manifest = nlohmann::json::parse(read_text(cases / "manifest.json"));
  for (const auto& one : manifest.at("cases")) {
    if (one.at("kind") != "real_video" || one.at("outcome") != "ok") continue;
    if (!one.at("expected").value("dataset_refuses", nlohmann::json()).is_null()) continue;
    const fs::path file = cases / one.at("file").get<std::string>();
    fs::copy_file(file, folder / "videos" / file.filename().string());
    captions += nlohmann::json{{"clip_name", file.filename().string()},
                               {"caption", "a car turns left " + std::to_string(++count)}}
                    .dump() +
                "\n";
  }
  folder.write("captions.jsonl", captions);
  return count;
}

}  // namespace

TEST_SUITE("cli/readme") {
  TEST_CASE("README's way from a folder of videos and captions to a trained model and a search runs as it stands") {
    if (!test_support::have(test_support::cases_folder() / "manifest.json")) return;
    if (!test_support::have(test_support::fixtures_folder() / "vocab.txt")) return;
    const Folder folder;
    REQUIRE(write_data(folder) >= 10);
    fs::create_directories(folder / "vocab");
    fs::copy_file(test_support::fixtures_folder() / "vocab.txt", folder / "vocab" / "vocab.txt");
    auto config = nlohmann::json::parse(read_text(test_support::tiny_folder() / "c.json"));
    config["max_train_steps"] = 4;  // the same commands with a smaller demo.json
    folder.write("reference_app/configs/demo.json", config.dump(2));
    fs::create_directories(folder / "build" / "dev" / "reference_app");
    fs::create_symlink(fs::absolute(std::getenv("AMP_CLIPBERT")),
                       folder / "build" / "dev" / "reference_app" / "clipbert");
    folder.write("own.sh", commands_below("### Your own data"));
    const std::string run = "cd '" + folder.path().string() + "' && bash -euo pipefail own.sh >own.out 2>own.err";
    const int status = std::system(run.c_str());
    INFO(read_text(folder / "own.err"));
    REQUIRE(status == 0);
    const auto out = read_text(folder / "own.out");
    CHECK(has(out, "text to video"));
    CHECK(has(out, "\"a car turns left\""));
    CHECK(has(read_text(folder / "found.html"), "data:image/jpeg;base64,"));
  }
}
