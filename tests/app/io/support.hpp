/// What the tests of files have in common.
#pragma once
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/tensor.hpp"
#include "support/temp_folder.hpp"

namespace test_support {

template <class T>
clipbert::io::Tensor tensor_of(clipbert::io::DType dtype, std::vector<std::int64_t> shape,
                               const std::vector<T>& values) {
  clipbert::io::Tensor t{dtype, std::move(shape), std::vector<std::byte>(values.size() * sizeof(T))};
  if (!values.empty()) std::memcpy(t.bytes.data(), values.data(), t.bytes.size());
  return t;
}

/// A tensor of every type that files keep, a scalar and an empty one, and one by the name of `odd`.
inline clipbert::io::Tensors tensors_of_every_type(const std::string& odd) {
  using clipbert::io::DType;
  return {{"w", tensor_of<float>(DType::f32, {2, 3}, {1, 2, 3, 4, 5, 6.5F})},
          {"d", tensor_of<double>(DType::f64, {}, {0.1})},
          {"h", tensor_of<std::uint16_t>(DType::f16, {3}, {0x3c00, 0x7bff, 1})},
          {"b", tensor_of<std::uint16_t>(DType::bf16, {1, 1}, {0x3f80})},
          {"i", tensor_of<std::int64_t>(DType::i64, {2}, {-1, std::numeric_limits<std::int64_t>::max()})},
          {"i32", tensor_of<std::int32_t>(DType::i32, {1}, {-7})},
          {"i16", tensor_of<std::int16_t>(DType::i16, {1}, {-7})},
          {"i8", tensor_of<std::int8_t>(DType::i8, {1}, {-7})},
          {"u8", tensor_of<std::uint8_t>(DType::u8, {3}, {0, 128, 255})},
          {"flag", tensor_of<std::uint8_t>(DType::boolean, {2}, {0, 1})},
          {"empty", tensor_of<float>(DType::f32, {0, 5}, {})},
          {odd, tensor_of<std::uint8_t>(DType::u8, {1}, {9})}};
}

inline std::string content_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline void write_bytes(const std::filesystem::path& file, std::string_view bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

}  // namespace test_support
