#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "app/cases/manifest.hpp"
#include "config/errors.hpp"
#include "io/safetensors.hpp"

using namespace clipbert::io;

namespace {

/// The manifest writes types as PyTorch does.
std::string torch_name(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "float64";
    case DType::f32:
      return "float32";
    case DType::f16:
      return "float16";
    case DType::bf16:
      return "bfloat16";
    case DType::i64:
      return "int64";
    case DType::i32:
      return "int32";
    case DType::i16:
      return "int16";
    case DType::i8:
      return "int8";
    case DType::u8:
      return "uint8";
    case DType::boolean:
      return "bool";
  }
  return {};
}

template <class T>
T load_as(const Tensor& tensor, std::size_t i) {
  T value;
  std::memcpy(&value, tensor.bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

double half_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const double mantissa = bits & 1023;
  const double size = exponent == 31  ? (mantissa == 0 ? HUGE_VAL : NAN)
                      : exponent == 0 ? std::ldexp(mantissa, -24)
                                      : std::ldexp(1024 + mantissa, exponent - 25);
  return bits >> 15 != 0 ? -size : size;
}

double value_at(const Tensor& tensor, std::size_t i) {
  switch (tensor.dtype) {
    case DType::f64:
      return load_as<double>(tensor, i);
    case DType::f32:
      return load_as<float>(tensor, i);
    case DType::f16:
      return half_value(load_as<std::uint16_t>(tensor, i));
    case DType::bf16:
      return std::bit_cast<float>(std::uint32_t{load_as<std::uint16_t>(tensor, i)} << 16);
    case DType::i64:
      return static_cast<double>(load_as<std::int64_t>(tensor, i));
    case DType::i32:
      return load_as<std::int32_t>(tensor, i);
    case DType::i16:
      return load_as<std::int16_t>(tensor, i);
    case DType::i8:
      return load_as<std::int8_t>(tensor, i);
    case DType::u8:
    case DType::boolean:
      return load_as<std::uint8_t>(tensor, i);
  }
  return NAN;
}

std::size_t count(const Tensor& tensor) { return tensor.bytes.size() / size_of(tensor.dtype); }

double finite_sum(const Tensor& tensor) {
  double sum = 0;
  for (std::size_t i = 0; i < count(tensor); ++i)
    if (const double v = value_at(tensor, i); std::isfinite(v)) sum += v;
  return sum;
}

void check_tensors(const Tensors& tensors, const nlohmann::json& expected) {
  const double rel = expected.at("sum_tol").at("rel"), abs = expected.at("sum_tol").at("abs");
  const auto near = [&](double got, double want) { return std::abs(got - want) <= abs + rel * std::abs(want); };
  REQUIRE(expected.at("under").is_null());
  if (const auto& raw = expected.at("tensors_raw"); !raw.is_null()) {
    CHECK(tensors.size() == raw.size());
    for (const auto& [name, want] : raw.items()) {
      CAPTURE(name);
      REQUIRE(tensors.contains(name));
      const auto& tensor = tensors.at(name);
      CHECK(torch_name(tensor.dtype) == want[0].get<std::string>());
      CHECK(tensor.shape == want[1].get<std::vector<std::int64_t>>());
      CHECK(near(finite_sum(tensor), want[2]));
    }
  }
  for (const auto& want : expected.at("values")) {
    const auto& tensor = tensors.at(want[0].get<std::string>());
    std::size_t flat = 0, axis = 0;
    for (const auto& index : want[1])
      flat = flat * static_cast<std::size_t>(tensor.shape.at(axis++)) + index.get<std::size_t>();
    CHECK(near(value_at(tensor, flat), want[2]));
  }
}

}  // namespace

TEST_SUITE("cases/ckpt") {
  TEST_CASE("each shared weights file that io reads comes out, or is refused, as its case says") {
    for (const auto& one : test_support::cases_of("ckpt")) {
      CAPTURE(one.name);
      try {
        const auto file = read_safetensors(one.file);
        CHECK((one.allows("ok") || one.allows("warn")));
        check_tensors(file.tensors, one.expected());
        CHECK(nonfinite_tensors(file.tensors) == one.expected().at("nonfinite").get<std::vector<std::string>>());
        const auto& same = one.expected().at("same_as");
        if (same.is_string() && test_support::skip_reason("ckpt", same.get<std::string>()).empty())
          CHECK(file.tensors == read_safetensors(test_support::cases_folder() / same.get<std::string>()).tensors);
      } catch (const clipbert::content_error& e) {
        CAPTURE(e.what());
        CHECK(one.allows("error"));
        test_support::check_message(one, e.what());
      }
    }
  }
}
