// OpCast as it is where LibTorch lacks the key that the toolkit's lists need: this program holds that form.
#include <doctest/doctest.h>
#include <torch/torch.h>

#include <amp_torch/op_cast.hpp>
#include <stdexcept>

namespace {

using amp_torch::OpCast;
constexpr auto f32 = torch::kFloat, bf16 = torch::kBFloat16, f16 = torch::kHalf;

at::ScalarType product() { return torch::mm(torch::ones({2, 2}), torch::ones({2, 2})).scalar_type(); }

}  // namespace

TEST_SUITE("amp_torch_autocast/op_cast") {
  TEST_CASE(
      "C1 products run in the low type by LibTorch's lists, losses in fp32, and gradients of fp32 leaves in fp32") {
    CHECK_FALSE(OpCast::own_lists());
    for (const auto type : {bf16, f16}) {
      const auto w = torch::randn({4, 4}, torch::requires_grad());
      torch::Tensor y;
      {
        const OpCast region(type);
        y = torch::mm(torch::randn({2, 4}), w);
        CHECK((torch::mse_loss(y, torch::zeros_like(y)).scalar_type() == f32));
      }
      CHECK((y.scalar_type() == type));
      y.to(f32).sum().backward();
      CHECK((w.grad().scalar_type() == f32));
    }
  }
  TEST_CASE("C5 regions nest, an inner disabled region restores the outer state, on exceptions too") {
    const OpCast none;
    CHECK((product() == f32));
    {
      const OpCast outer(bf16);
      {
        const OpCast off(bf16, torch::kCPU, false);
        CHECK((product() == f32));
        CHECK_FALSE(OpCast::type().has_value());
        CHECK_FALSE(OpCast::device().has_value());
        const OpCast on(f16);
        CHECK((product() == f16));
      }
      CHECK((product() == bf16));
      try {
        const OpCast half(f16);
        throw std::runtime_error("leaves the region");
      } catch (const std::runtime_error&) {
      }
      CHECK((product() == bf16));
      CHECK((OpCast::type() == bf16));
      CHECK((OpCast::device() == torch::kCPU));
    }
    CHECK((product() == f32));
    CHECK_FALSE(OpCast::type().has_value());
  }
  TEST_CASE("C4 a weight is cast once in a region, anew after clear_cache, and each time without the cache") {
    const auto w = torch::ones({2, 2}).requires_grad_();
    const auto x = torch::ones({1, 2});
    const auto sum = [&] { return torch::mm(x, w).to(f32).sum().item<float>(); };
    const auto write = [&](float value) {
      const torch::NoGradGuard guard;
      w.fill_(value);
    };
    {
      const OpCast region(bf16);
      CHECK(sum() == 4.F);
      write(2.F);
      CHECK(sum() == 4.F);  // LibTorch's cache does not see the write
      OpCast::clear_cache();
      CHECK(sum() == 8.F);
      write(3.F);
    }
    const OpCast region(bf16);
    CHECK(sum() == 12.F);
    amp_torch::op_cast_options uncached;
    uncached.cache = false;
    const OpCast inner(bf16, torch::kCPU, true, uncached);
    write(4.F);
    CHECK(sum() == 16.F);
    CHECK(OpCast::casts() == 0);
  }
}
