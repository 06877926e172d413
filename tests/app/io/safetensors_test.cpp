#include "io/safetensors.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "app/io/support.hpp"
#include "config/errors.hpp"
#include "support/errors.hpp"

namespace fs = std::filesystem;
using namespace clipbert::io;
using Folder = test_support::TempFolder;
using test_support::has;
using test_support::tensor_of;

namespace {

/// What reading a file with this header and so many data bytes says.
std::string refusal(const std::string& header, std::size_t data, std::uint64_t length = 0) {
  const Folder folder;
  const auto file = folder.path() / "bad.safetensors";
  if (length == 0) length = header.size();
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&length), sizeof(length));
  out << header << std::string(data, 'd');
  out.close();
  try {
    static_cast<void>(read_safetensors(file));
  } catch (const clipbert::content_error& e) {
    const std::string message = e.what();
    CHECK(message.starts_with(file.string()));
    CHECK(message.find('\n') == std::string::npos);
    return message.substr(file.string().size());
  }
  return "accepted";
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

}  // namespace

TEST_SUITE("io/safetensors") {
  TEST_CASE(
      "every element type, scalars, empty tensors and metadata survive a round trip, in the same bytes each time") {
    const Folder folder;
    const auto tensors = test_support::tensors_of_every_type("name \"\xc3\xa9\"\n");
    const Metadata metadata{{"format", "pt"}, {"step", "7"}};
    write_safetensors(folder.path() / "a", tensors, metadata);
    const auto read = read_safetensors(folder.path() / "a");
    CHECK(read.tensors == tensors);
    CHECK(read.metadata == metadata);
    write_safetensors(folder.path() / "b", read.tensors, read.metadata);
    CHECK(test_support::content_of(folder.path() / "a") == test_support::content_of(folder.path() / "b"));
    std::uint64_t length = 0;
    std::memcpy(&length, test_support::content_of(folder.path() / "a").data(), sizeof(length));
    CHECK(length % 8 == 0);
    write_safetensors(folder.path() / "none", Tensors{});
    CHECK(read_safetensors(folder.path() / "none").tensors.empty());
  }

  TEST_CASE("a tensor whose bytes do not fit its shape is not written") {
    const Folder folder;
    const auto file = folder.path() / "x";
    CHECK_THROWS_AS(write_safetensors(file, Tensors{{"w", {DType::f32, {3}, std::vector<std::byte>(11)}}}),
                    clipbert::content_error);
    CHECK_FALSE(fs::exists(file));
  }

  TEST_CASE("hostile headers are refused with the file and the tensor named") {
    const auto one = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
      return "{" + entry("w", dtype, shape, offsets) + "}";
    };
    CHECK(refusal(one("F32", "[2]", "[0,8]"), 8) == "accepted");
    CHECK(refusal(one("F32", "[2]", "[0,8]") + "   ", 8) == "accepted");
    CHECK(has(refusal(one("F32", "[2]", "[0,8]"), 5), "tensor w: the data is shorter than the offsets say"));
    CHECK(has(refusal(one("F32", "[2]", "[0,8]"), 9), "1 bytes behind the last tensor"));
    CHECK(has(refusal(one("F32", "[3]", "[0,8]"), 8), "tensor w: data_offsets do not fit"));
    CHECK(has(refusal(one("F32", "[2]", "[8,0]"), 8), "tensor w: data_offsets do not fit"));
    CHECK(has(refusal(one("F32", "[-2]", "[0,8]"), 8), "-2, which is no size"));
    CHECK(has(refusal(one("F32", "[2.0]", "[0,8]"), 8), "which is no size"));
    CHECK(has(refusal(one("F32", "[4294967296,4294967296,4]", "[0,8]"), 8), "more elements than memory"));
    CHECK(has(refusal(one("F32", "[4611686018427387904]", "[0,0]"), 0), "do not fit"));
    CHECK(has(refusal(one("F32", "[2]", "[0,18446744073709551615]"), 8), "no size"));
    CHECK(has(refusal(one("Q7", "[2]", "[0,8]"), 8), "dtype \"Q7\" is not known"));
    CHECK(has(refusal(one("F32", "2", "[0,8]"), 8), "shape is not a list"));
    CHECK(has(refusal(one("F32", "[2]", "[0]"), 8), "data_offsets is not a pair"));
    CHECK(has(refusal(R"({"w":{"dtype":"F32"}})", 8), "tensor w: needs dtype, shape and data_offsets"));
    CHECK(has(refusal(R"({"w":3})", 8), "tensor w: needs"));
    CHECK(has(refusal(R"({"__metadata__":{"a":1}})", 0), "__metadata__.a is not a text"));
    CHECK(has(refusal("{" + entry("a", "F32", "[2]", "[0,8]") + "," + entry("b", "F32", "[2]", "[4,12]") + "}", 12),
              "tensor b: its bytes overlap"));
    CHECK(has(refusal("{" + entry("a", "F32", "[2]", "[0,8]") + "," + entry("b", "F32", "[1]", "[12,16]") + "}", 16),
              "tensor b: unused bytes"));
    CHECK(has(refusal("{" + entry("a", "U8", "[1]", "[0,1]") + "," + entry("a", "U8", "[1]", "[1,2]") + "}", 2),
              "key a stands twice"));
    CHECK(has(refusal("[1]", 0), "the header is not a JSON object"));
    CHECK(has(refusal("{", 0), "in the header"));
    CHECK(has(refusal("{}", 0, 1'000), "cut inside its header"));
    CHECK(has(refusal("{}", 0, std::numeric_limits<std::uint64_t>::max()), "cut inside its header"));
    CHECK_THROWS_AS(static_cast<void>(read_safetensors("no_such_file")), clipbert::content_error);
    CHECK_THROWS_AS(static_cast<void>(read_safetensors(fs::temp_directory_path())), clipbert::content_error);
  }

  TEST_CASE("a file cut at any byte is refused") {
    const Folder folder;
    const auto file = folder.path() / "whole";
    write_safetensors(file, Tensors{{"a", tensor_of<float>(DType::f32, {3}, {1, 2, 3})},
                                    {"b", tensor_of<std::uint8_t>(DType::u8, {2}, {1, 2})}});
    const auto whole = test_support::content_of(file);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      std::ofstream(folder.path() / "cut", std::ios::binary) << whole.substr(0, size);
      CHECK_THROWS_AS(static_cast<void>(read_safetensors(folder.path() / "cut")), clipbert::content_error);
    }
  }

  TEST_CASE("tensors with NaN or infinity are named, in every floating-point format") {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const Tensors tensors{{"f32", tensor_of<float>(DType::f32, {2}, {1, nan})},
                          {"f64", tensor_of<double>(DType::f64, {1}, {-std::numeric_limits<double>::infinity()})},
                          {"f16", tensor_of<std::uint16_t>(DType::f16, {1}, {0xfc00})},
                          {"bf16", tensor_of<std::uint16_t>(DType::bf16, {1}, {0x7fc0})},
                          {"fine", tensor_of<float>(DType::f32, {1}, {std::numeric_limits<float>::max()})},
                          {"fine16", tensor_of<std::uint16_t>(DType::f16, {1}, {0x7bff})},
                          {"int", tensor_of<std::int32_t>(DType::i32, {1}, {-1})}};
    CHECK(nonfinite_tensors(tensors) == std::vector<std::string>{"bf16", "f16", "f32", "f64"});
  }
}
