/// Storage and names shared by the benches.
#pragma once
#include <amp/half_traits.hpp>
#include <amp/simd/target.hpp>
#include <amp/tensor/list.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace bench {

/// Tensors of given sizes in one format, with storage, filled with small values.
class Tensors {
 public:
  Tensors(const std::vector<std::int64_t>& sizes, amp::dtype type, float scale) {
    for (const std::int64_t size : sizes) {
      auto& buffer = buffers_.emplace_back(new unsigned char[static_cast<std::size_t>(size) * amp::size_of(type)]);
      views_.push_back({buffer.get(), size, type, false, {}});
      amp::visit(type, [&]<class T>(std::type_identity<T>) {
        auto* to = static_cast<T*>(views_.back().data);
        for (std::int64_t i = 0; i < size; ++i) to[i] = T(scale * static_cast<float>(i % 15 - 7));
      });
    }
  }
  [[nodiscard]] const std::vector<amp::tensor_view>& list() const { return views_; }

 private:
  std::vector<std::unique_ptr<unsigned char[]>> buffers_;
  std::vector<amp::tensor_view> views_;
};

inline std::vector<amp::simd::target> targets() {
  using amp::simd::target;
  std::vector<target> all;
  for (const target t : {target::base, target::avx2, target::avx512}) {
    if (amp::simd::supported(t)) all.push_back(t);
  }
  return all;
}

/// `adam/avx512/bf16/n:1048576`
inline std::string case_name(const std::string& what, amp::simd::target t, amp::dtype type, std::int64_t n) {
  return what + '/' + std::string(amp::simd::name(t)) + '/' + std::string(amp::name(type)) + "/n:" + std::to_string(n);
}

inline constexpr std::int64_t in_cache = 1 << 14, in_memory = 1 << 24, between = 1 << 20;

}  // namespace bench
