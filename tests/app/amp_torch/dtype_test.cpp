#include <doctest/doctest.h>
#include <torch/torch.h>

#include <amp/fn/scale.hpp>
#include <amp/loss_scaler.hpp>
#include <amp/multi_tensor_apply.hpp>
#include <amp_torch/dtype.hpp>
#include <amp_torch/scaler_archive.hpp>
#include <amp_torch/view.hpp>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <sstream>
#include <string>
#include <vector>

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
  TEST_CASE_TEMPLATE("N11 all 65536 patterns of c10's type are ours and widen to the same float", T, c10::Half,
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
  TEST_CASE("N11 narrowing rounds as c10 does") {
    CHECK(disagreements<amp::half, c10::Half>() == 0);
    CHECK(disagreements<amp::bfloat16, c10::BFloat16>() == 0);
  }
  TEST_CASE("N11 run-time types map both ways, what the toolkit does not step maps to nothing") {
    for (const auto type : {amp::dtype::fp32, amp::dtype::fp16, amp::dtype::bf16}) {
      CHECK(amp_torch::to_amp(amp_torch::to_torch(type)).value() == type);
    }
    for (const auto type : {amp::dtype::e4m3, amp::dtype::e5m2, amp::dtype::e4m3fnuz, amp::dtype::e5m2fnuz}) {
      CHECK(amp_torch::storage_format(amp_torch::to_torch(type)).value() == type);
      CHECK_FALSE(amp_torch::to_amp(amp_torch::to_torch(type)).has_value());
    }
    CHECK(amp_torch::storage_format(at::kHalf).value() == amp::dtype::fp16);
    CHECK_FALSE(amp_torch::storage_format(at::kLong).has_value());
    CHECK_FALSE(amp_torch::to_amp(at::kDouble).has_value());
    CHECK_FALSE(amp_torch::to_amp(at::kLong).has_value());
  }
  TEST_CASE_TEMPLATE("N11 all 256 patterns of c10's 8-bit types are ours and widen to the same float", T,
                     c10::Float8_e4m3fn, c10::Float8_e5m2, c10::Float8_e4m3fnuz, c10::Float8_e5m2fnuz) {
    for (std::uint32_t bits = 0; bits < 256; ++bits) {
      const T theirs(static_cast<std::uint8_t>(bits), T::from_bits());
      const auto ours = amp::bit_view(theirs);
      const float a = static_cast<float>(ours), b = static_cast<float>(theirs);
      CAPTURE(bits);
      CHECK(std::bit_cast<std::uint8_t>(ours) == bits);
      CHECK(std::isnan(a) == std::isnan(b));
      if (!std::isnan(a)) CHECK(std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b));
    }
  }
}

TEST_SUITE("amp_torch/view") {
  TEST_CASE("A8 N11 lists of at::Tensor go through multi_tensor_apply in place, types mixed") {
    auto a = torch::full({3, 5}, 1.5), b = torch::full({7}, 2.5, torch::kHalf);
    auto c = torch::empty({3, 5}, torch::kBFloat16), d = torch::empty({7});
    const std::vector<amp::tensor_view> from{amp::as_view(a), amp::as_view(b)}, to{amp::as_view(c), amp::as_view(d)};
    amp::multi_tensor_apply(amp::exec::vectorized{}, amp::fn::Scale{2.F}, amp::lane::out(to), amp::lane::in(from));
    CHECK(torch::equal(c, torch::full({3, 5}, 3., torch::kBFloat16)));
    CHECK(torch::equal(d, torch::full({7}, 5.)));
    CHECK(from[0].data == a.data_ptr());
  }
  TEST_CASE("A8 a tensor that is strided, undefined or of another type is refused, 8-bit ones are formats") {
    CHECK_THROWS_AS((void)amp_torch::view_of(torch::ones({4, 4}).select(1, 0)), amp::error);
    CHECK_THROWS_AS((void)amp_torch::view_of(at::Tensor()), amp::error);
    CHECK_THROWS_AS((void)amp_torch::view_of(torch::ones({2}, torch::kLong)), amp::error);
    CHECK(amp_torch::view_of(torch::ones({2}).to(at::kFloat8_e4m3fn)).type == amp::dtype::e4m3);
    CHECK(amp_torch::view_of(torch::ones({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast)).size == 120);
  }
}

TEST_SUITE("amp_torch/scaler_archive") {
  TEST_CASE("S14 apex's and GradScaler's forms go through a LibTorch archive bit for bit") {
    const auto round_trip = [](const amp::saved_dict& dict) {
      torch::serialize::OutputArchive out;
      amp_torch::write(out, dict);
      std::stringstream file;
      out.save_to(file);
      torch::serialize::InputArchive in;
      in.load_from(file);
      return amp_torch::read_dict(in);
    };
    std::vector<amp::LossScaler<amp::DynamicScale>> apex(2);
    apex[1].update(true), apex[1].update(false);
    const auto dict = amp::apex_dict(std::span<const amp::LossScaler<amp::DynamicScale>>(apex));
    CHECK((amp::read_apex(round_trip(dict)).state == amp::read_apex(dict).state));
    const amp::torch_scaler_state torch_state{0x1.234566p-20F, 1.1, 0.3, 2000, 1999, 2};
    CHECK((amp::read_torch(round_trip(amp::to_dict(torch_state))).state == torch_state));
    amp::LossScaler h{amp::HysteresisScale{}};
    amp::load_torch_dict(h, round_trip(amp::to_dict(torch_state)));
    CHECK(h.scale() == 0x1.234566p-20F);
    torch::serialize::OutputArchive empty;
    CHECK_THROWS_AS(amp::load_torch_dict(h, {}), amp::error);
  }
  TEST_CASE("S14 an archive that holds something else is refused by the entry's name") {
    torch::serialize::OutputArchive out;
    out.write("text", c10::IValue(std::string("hello")));
    std::stringstream file;
    out.save_to(file);
    torch::serialize::InputArchive in;
    in.load_from(file);
    CHECK_THROWS_WITH_AS((void)amp_torch::read_dict(in), doctest::Contains("\"text\""), amp::error);
  }
}
