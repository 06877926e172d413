/// Lists of tensors with storage, for tests: any formats, any start within a buffer, guards around each tensor.
#pragma once
#include <amp/fn/adam.hpp>
#include <amp/half_traits.hpp>
#include <amp/tensor/list.hpp>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

namespace test_apply {

/// Sizes around chunk borders and vector widths, empty tensors first, last and in a row.
inline std::vector<std::int64_t> awkward_sizes() {
  return {0, 1, 33, 0, 0, 16, 65535, 65536, 65537, 0, 15, 17, 3, 131073, 511, 512, 513, 64, 63, 0};
}

/// A first step of AdamW at the usual rates, 1 - beta rounded by hand.
constexpr amp::fn::AdamW first_adamw_step(float lr, float decay) {
  return {.lr = lr,
          .beta1 = 0.9f,
          .one_minus_beta1 = 0.1f,
          .beta2 = 0.999f,
          .one_minus_beta2 = 0.001f,
          .eps = 1e-8f,
          .decay = decay,
          .inv_bias1 = 10.f,
          .inv_bias2 = 1000.f};
}

/// A small generator, so that a list is the same on every platform.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 2654435761u + 1) {}
  float uniform() {  // [-1, 1)
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<float>(static_cast<std::int32_t>(state_ >> 32)) * 0x1p-31f;
  }

 private:
  std::uint64_t state_;
};

/// Owns tensors of given sizes; tensor t is stored as formats[t % formats.size()] and starts `shift` elements into its
/// buffer. Each tensor has a buffer of its own that ends where the tensor ends.
class Tensors {
 public:
  Tensors(const std::vector<std::int64_t>& sizes, const std::vector<amp::dtype>& formats, std::int64_t shift = 0)
      : shift_(shift) {
    for (std::size_t t = 0; t < sizes.size(); ++t) {
      const amp::dtype type = formats[t % formats.size()];
      const auto bytes = static_cast<std::size_t>(sizes[t] + shift) * amp::size_of(type);
      auto& buffer = buffers_.emplace_back(new unsigned char[bytes + 1]);  // new: aligned for every format
      std::memset(buffer.get(), 0x5a, bytes + 1);
      bytes_.push_back(bytes);
      views_.push_back(
          {buffer.get() + static_cast<std::size_t>(shift) * amp::size_of(type), sizes[t], type, false, {}});
    }
  }

  /// Values in [-scale, scale).
  Tensors& randomize(std::uint64_t seed, float scale) {
    Random random(seed);
    for (std::size_t t = 0; t < views_.size(); ++t) {
      for (std::int64_t i = 0; i < views_[t].size; ++i) set(t, i, random.uniform() * scale);
    }
    return *this;
  }
  Tensors& fill(float value) {
    for (std::size_t t = 0; t < views_.size(); ++t) {
      for (std::int64_t i = 0; i < views_[t].size; ++i) set(t, i, value);
    }
    return *this;
  }
  void set(std::size_t t, std::int64_t i, float value) {
    amp::visit(views_[t].type, [&]<class T>(std::type_identity<T>) { static_cast<T*>(views_[t].data)[i] = T(value); });
  }
  [[nodiscard]] float at(std::size_t t, std::int64_t i) const {
    return amp::visit(views_[t].type, [&]<class T>(std::type_identity<T>) -> float {
      return static_cast<const T*>(views_[t].data)[i];
    });
  }

  [[nodiscard]] std::vector<amp::tensor_view>& list() { return views_; }
  [[nodiscard]] const std::vector<amp::tensor_view>& list() const { return views_; }
  [[nodiscard]] std::size_t size() const { return views_.size(); }

  /// Every byte of every buffer, with what lies before and after the tensors.
  [[nodiscard]] std::vector<unsigned char> bytes() const {
    std::vector<unsigned char> all;
    for (std::size_t t = 0; t < buffers_.size(); ++t) {
      all.insert(all.end(), buffers_[t].get(), buffers_[t].get() + bytes_[t] + 1);
    }
    return all;
  }
  /// Whether nothing around the tensors was written.
  [[nodiscard]] bool guards_intact() const {
    for (std::size_t t = 0; t < buffers_.size(); ++t) {
      const auto before = static_cast<std::size_t>(shift_) * amp::size_of(views_[t].type);
      for (std::size_t i = 0; i < before; ++i) {
        if (buffers_[t][i] != 0x5a) return false;
      }
      if (buffers_[t][bytes_[t]] != 0x5a) return false;
    }
    return true;
  }

 private:
  std::int64_t shift_;
  std::vector<std::unique_ptr<unsigned char[]>> buffers_;
  std::vector<std::size_t> bytes_;
  std::vector<amp::tensor_view> views_;
};

}  // namespace test_apply
