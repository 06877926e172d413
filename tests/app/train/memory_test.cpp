#include "train/memory.hpp"

#include <doctest/doctest.h>
#include <torch/torch.h>

TEST_SUITE("train/memory") {
  TEST_CASE("a meter counts tensors made and freed while it lives, backward included") {
    const auto before = torch::ones({1024});
    clipbert::train::MemoryMeter meter;
    CHECK(meter.now() == 0);
    {
      const auto made = torch::ones({1024});
      CHECK(meter.now() >= 4096);
      CHECK(meter.now() < 3 * 4096);
    }
    CHECK(meter.now() == 0);
    CHECK(meter.peak() >= 4096);
    auto w = torch::ones({256, 256}, torch::requires_grad());
    (w * w).sum().backward();
    CHECK(meter.now() >= 2 * 256 * 256 * 4);  // the weight and its gradient
    CHECK(before.numel() == 1024);
  }
  TEST_CASE("what was not made under the meter is not subtracted from it") {
    auto before = torch::ones({4096});
    clipbert::train::MemoryMeter meter;
    before = torch::Tensor();
    CHECK(meter.now() >= 0);
  }
  TEST_CASE("resident memory is reported in bytes and the peak is no less than now") {
    CHECK(clipbert::train::current_rss() > (8 << 20));
    CHECK(clipbert::train::peak_rss() >= clipbert::train::current_rss() / 2);
  }
  TEST_CASE("the total is what stays between steps plus what a step adds") {
    const clipbert::train::MemoryUse use{
        .weights = 1, .masters = 2, .gradients = 4, .optimizer = 8, .activations = 16, .peak_tensors = 99};
    CHECK(use.total() == 31);
  }
}
