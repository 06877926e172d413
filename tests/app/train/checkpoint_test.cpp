#include "train/checkpoint.hpp"

#include <doctest/doctest.h>
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "config/errors.hpp"
#include "support/temp_folder.hpp"
#include "train/state_files.hpp"

namespace {

namespace fs = std::filesystem;
using namespace clipbert::train;  // NOLINT: a test of this namespace
using Folder = test_support::TempFolder;

/// A folder of its own that goes away with the test.
TrainingState state_of(std::int64_t step) {
  TrainingState s;
  s.step = step;
  const std::vector<float> values{1.5F, -0.F, 3e-42F, static_cast<float>(step)};
  amp::save_values<float>(s.tensors, "w", values, {2, 2});
  amp::save_value<std::int64_t>(s.tensors, "n", 7);
  s.meta = {{"running", 0.1}, {"position", step}};
  return s;
}

bool same(const TrainingState& a, const TrainingState& b) {
  return a.step == b.step && a.tensors == b.tensors && a.meta == b.meta;
}

/// Flips one byte in the middle of a file.
void damage(const fs::path& file) {
  std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
  const auto middle = static_cast<std::streamoff>(fs::file_size(file)) - 3;
  f.seekg(middle);
  const char byte = static_cast<char>(f.get());
  f.seekp(middle);
  f.put(static_cast<char>(byte ^ 1));
}

}  // namespace

TEST_SUITE("train/checkpoint") {
  TEST_CASE("a state comes back bit for bit, subnormals and signed zeros too") {
    const Folder folder;
    write_state(folder.path() / "s.safetensors", state_of(3));
    CHECK(same(read_state(folder.path() / "s.safetensors"), state_of(3)));
  }
  TEST_CASE("tensors of 8-bit floats come back with their type") {
    const Folder folder;
    auto state = state_of(5);
    state.tensors["m"] = {"F8_E4M3", {3}, {std::byte{1}, std::byte{0x7e}, std::byte{0x80}}};
    state.tensors["bytes"] = {"U8", {1}, {std::byte{9}}};
    write_state(folder.path() / "s.safetensors", state);
    CHECK(same(read_state(folder.path() / "s.safetensors"), state));
  }
  TEST_CASE("states are written in turn and the newest is loaded") {
    const Folder folder;
    StateFiles files(folder.path());
    CHECK_FALSE(files.load().has_value());
    for (std::int64_t step = 1; step <= 5; ++step) {
      files.save(state_of(step));
      CHECK(StateFiles(folder.path()).load()->step == step);
    }
    StateFiles again(folder.path());  // another process goes on
    again.save(state_of(6));
    CHECK(again.load()->step == 6);
    const auto count = std::distance(fs::directory_iterator(folder.path() / "restore"), fs::directory_iterator());
    CHECK(count == 2);
  }
  TEST_CASE("a damaged state is passed over, said, and replaced first") {
    const Folder folder;
    StateFiles files(folder.path());
    files.save(state_of(1));
    files.save(state_of(2));
    for (const auto& entry : fs::directory_iterator(folder.path() / "restore")) {
      if (read_state(entry.path()).step == 2) damage(entry.path());
    }
    std::string said;
    const auto state = StateFiles(folder.path()).load([&](std::string_view line) { said = line; });
    REQUIRE(state.has_value());
    CHECK(same(*state, state_of(1)));
    CHECK(said.find("checksum") != std::string::npos);
    StateFiles later(folder.path());
    later.save(state_of(3));
    CHECK(later.load()->step == 3);
    int sound = 0;
    for (const auto& entry : fs::directory_iterator(folder.path() / "restore"))
      sound += read_state(entry.path()).step > 0;
    CHECK(sound == 2);
  }
  TEST_CASE("a cut file is passed over, if nothing sound is left that is an error") {
    const Folder folder;
    StateFiles files(folder.path());
    files.save(state_of(1));
    fs::path only;
    for (const auto& entry : fs::directory_iterator(folder.path() / "restore")) only = entry.path();
    fs::resize_file(only, fs::file_size(only) - 5);
    CHECK_THROWS_AS(static_cast<void>(StateFiles(folder.path()).load()), clipbert::content_error);
  }
  TEST_CASE("resume: auto takes what there is, never nothing, required insists, a path is read") {
    const Folder folder;
    CHECK_FALSE(find_state("auto", folder.path()).has_value());
    CHECK_THROWS_AS(static_cast<void>(find_state("required", folder.path())), clipbert::usage_error);
    CHECK_THROWS_AS(static_cast<void>(find_state("/no/such/file", folder.path())), clipbert::usage_error);
    StateFiles(folder.path()).save(state_of(4));
    CHECK(find_state("auto", folder.path())->state.step == 4);
    CHECK(find_state("required", folder.path())->state.step == 4);
    CHECK_FALSE(find_state("never", folder.path()).has_value());
    CHECK(find_state(folder.path().string(), "elsewhere")->state.step == 4);
    CHECK(find_state(folder.path().string(), "elsewhere")->run == folder.path());
    write_state(folder.path() / "x.safetensors", state_of(9));
    CHECK(find_state((folder.path() / "x.safetensors").string(), folder.path())->run.empty());
    CHECK(is_own_state(folder.path() / "x.safetensors"));
    std::ofstream(folder.path() / "other.pt") << "PK\x03\x04 and more";
    CHECK_FALSE(is_own_state(folder.path() / "other.pt"));
    CHECK(find_state((folder.path() / "x.safetensors").string(), folder.path())->state.step == 9);
  }
  TEST_CASE("weights files keep the newest and the best") {
    const Folder folder;
    ModelFiles files(folder.path(), 3);
    CHECK_FALSE(files.best().has_value());
    CHECK_THROWS_AS(files.mark_best(1), clipbert::content_error);
    for (std::int64_t step = 10; step <= 60; step += 10) {
      files.save(step, {{"w", torch::full({3}, static_cast<double>(step))}});
      if (step == 20) files.mark_best(20);
    }
    CHECK(files.steps() == std::vector<std::int64_t>{20, 40, 50, 60});
    CHECK(files.best() == 20);
    CHECK(fs::equivalent(folder.path() / "ckpt" / "best", files.file_of(20)));
    files.mark_best(60);
    CHECK(files.steps() == std::vector<std::int64_t>{40, 50, 60});
    CHECK(torch::equal(read_model(folder.path() / "ckpt" / "best").at("w"), torch::full({3}, 60.0)));
  }
  TEST_CASE("weights keep type, shape and bits, whatever the memory layout was") {
    const Folder folder;
    const auto image = torch::randn({2, 3, 4, 4}).contiguous(torch::MemoryFormat::ChannelsLast);
    const ModelState model{{"a", image},
                           {"b", torch::randn({5}).to(torch::kBFloat16)},
                           {"c", torch::tensor(7)},
                           {"d", torch::empty({0, 3})}};
    const auto file = ModelFiles(folder.path()).save(1, model);
    const auto back = read_model(file);
    REQUIRE(back.size() == model.size());
    for (const auto& [name, t] : model) {
      CAPTURE(name);
      CHECK((back.at(name).scalar_type() == t.scalar_type()));
      CHECK(torch::equal(back.at(name), t));
    }
  }
  TEST_CASE("a disk without room is said before anything is written") {
    const Folder folder;
    expect_space(folder.path(), 1);
    CHECK_THROWS_AS(expect_space(folder.path(), std::int64_t{1} << 60), clipbert::content_error);
  }
}
