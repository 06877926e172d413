#include <doctest/doctest.h>
#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "io/checkpoint_file.hpp"
#include "io/weight_names.hpp"
#include "model/clipbert.hpp"
#include "support/temp_folder.hpp"
#include "train/checkpoint.hpp"

namespace fs = std::filesystem;
using namespace clipbert;

namespace {

/// The most memory that this process had at once, in bytes.
std::int64_t peak_memory() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) << 10;
  return 0;
}

model::ClipBert full_size() {
  config::ModelConfig transformer;
  transformer.num_labels = 2;
  return {transformer, {}};
}

at::Tensor logits(model::ClipBert& net) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(3);
  const auto frames = at::randn({1, 1, 3, 64, 64});
  const auto ids = at::randint(1, 30'000, {1, 4}, at::kLong);
  const std::vector<std::int64_t> captions{1};
  return net.forward(frames, ids, at::ones({1, 4}, at::kLong), captions);
}

}  // namespace

TEST_SUITE("train/full_size") {
  TEST_CASE("ResNet-50 and BERT base are built, saved, loaded and run once within 8 GiB") {
    const test_support::TempFolder folder;
    torch::manual_seed(1);
    auto saved = full_size();
    saved.eval();
    std::int64_t all = 0, trained = 0;
    for (const auto& p : saved.parameters()) all += p.numel(), trained += p.requires_grad() ? p.numel() : 0;
    CHECK(all == 148'826'306);
    CHECK(trained == 148'603'906);
    const auto file = train::ModelFiles(folder.path()).save(1, saved.named_tensors());
    CHECK(fs::file_size(file) > 4 * 148'826'306ULL);

    auto loaded = full_size();
    loaded.eval();
    CHECK_FALSE(torch::equal(logits(loaded), logits(saved)));
    {
      const torch::NoGradGuard no_grad;
      auto weights = io::read_weights(file);
      io::Shapes wanted;
      for (const auto& [name, t] : loaded.named_tensors()) wanted[name] = t.sizes().vec();
      const auto match = io::match_names(io::shapes_of(weights.tensors), wanted, {""}, file);
      CHECK(match.complete());
      for (const auto& [name, t] : loaded.named_tensors())
        t.copy_(train::to_torch(std::move(weights.tensors.at(match.loaded.at(name)))));
    }
    CHECK(torch::equal(logits(loaded), logits(saved)));
    const auto peak = peak_memory();
    MESSAGE("peak memory " << (peak >> 20) << " MiB");
    CHECK(peak < std::int64_t{8} << 30);
  }
}
