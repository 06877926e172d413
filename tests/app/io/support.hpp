/// What the tests of files have in common.
#pragma once
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/tensor.hpp"

namespace test_support {

/// A temporary folder that goes with the object.
struct IoFolder {
  std::filesystem::path path;
  IoFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "clipbert_io_test_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a folder like " + name);
    path = name;
  }
  ~IoFolder() { std::filesystem::remove_all(path); }
  IoFolder(const IoFolder&) = delete;
  IoFolder& operator=(const IoFolder&) = delete;
};

template <class T>
clipbert::io::Tensor tensor_of(clipbert::io::DType dtype, std::vector<std::int64_t> shape,
                               const std::vector<T>& values) {
  clipbert::io::Tensor t{dtype, std::move(shape), std::vector<std::byte>(values.size() * sizeof(T))};
  if (!values.empty()) std::memcpy(t.bytes.data(), values.data(), t.bytes.size());
  return t;
}

inline std::string content_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline void write_bytes(const std::filesystem::path& file, std::string_view bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

}  // namespace test_support
