#include <doctest/doctest.h>
#include <torch/torch.h>

#include <amp_torch/dtype.hpp>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace {

/// Compares our conversions with c10's for every fp32 pattern whose low 11 bits are around a rounding decision.
template <class Ours, class Theirs>
int disagreements() {
  int wrong = 0;
  for (std::uint32_t high = 0; high < (1U << 21); ++high) {
    for (const std::uint32_t low : {0U, 1U, 1023U, 1024U, 1025U, 2047U}) {
      const float x = std::bit_cast<float>((high << 11) | low);
      const Ours mine(x);
      const Theirs other(x);
      if (std::isnan(x)) {
        wrong += !(std::isnan(static_cast<float>(mine)) && std::isnan(static_cast<float>(other)));
      } else {
        wrong += std::bit_cast<std::uint16_t>(mine) != other.x;
      }
    }
  }
  return wrong;
}

}  // namespace

TEST_SUITE("amp_torch/dtype") {
  TEST_CASE_TEMPLATE("all 65536 patterns of c10's type are ours and widen to the same float", T, c10::Half,
                     c10::BFloat16) {
    int wrong = 0;
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      const T theirs(static_cast<std::uint16_t>(bits), T::from_bits());
      const auto ours = amp::bit_view(theirs);
      const float a = static_cast<float>(ours), b = static_cast<float>(theirs);
      wrong += std::bit_cast<std::uint16_t>(ours) != bits || amp::bit_view_as<T>(ours).x != theirs.x;
      wrong += std::isnan(a) ? !std::isnan(b) : std::bit_cast<std::uint32_t>(a) != std::bit_cast<std::uint32_t>(b);
    }
    CHECK(wrong == 0);
  }
  TEST_CASE("narrowing rounds as c10 does") {
    CHECK(disagreements<amp::half, c10::Half>() == 0);
    CHECK(disagreements<amp::bfloat16, c10::BFloat16>() == 0);
  }
  TEST_CASE("run-time types map both ways, what the toolkit does not step maps to nothing") {
    for (const auto type : {amp::dtype::fp32, amp::dtype::fp16, amp::dtype::bf16}) {
      CHECK(amp_torch::to_amp(amp_torch::to_torch(type)).value() == type);
    }
    CHECK_FALSE(amp_torch::to_amp(at::kDouble).has_value());
    CHECK_FALSE(amp_torch::to_amp(at::kLong).has_value());
  }
}
