/// The O2 step as a job to time: bf16 parameters and gradients in the shapes of BERT-base + ResNet-50, or many small
/// ones.
#pragma once
#include <amp/master_weights.hpp>
#include <amp/optim/adam.hpp>
#include <amp/optim/clip.hpp>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace o2_step {

inline void add(std::vector<std::int64_t>& sizes, std::initializer_list<std::int64_t> more) {
  sizes.insert(sizes.end(), more);
}

/// BERT-base with 12 layers, ResNet-50 and a retrieval head: 370 tensors, 148.4 M elements.
inline std::vector<std::int64_t> big() {
  constexpr std::int64_t h = 768, ff = 3072;
  std::vector<std::int64_t> s{30522 * h, 512 * h, 2 * h, h, h};
  for (int layer = 0; layer < 12; ++layer) {
    for (int k = 0; k < 4; ++k) add(s, {h * h, h});
    add(s, {h, h, ff * h, ff, h * ff, h, h, h});
  }
  add(s, {h * h, h});
  add(s, {64 * 3 * 7 * 7, 64, 64});
  std::int64_t in = 64;
  for (const auto& [blocks, w] : {std::pair{3, 64}, std::pair{4, 128}, std::pair{6, 256}, std::pair{3, 512}}) {
    for (int block = 0; block < blocks; ++block) {
      add(s, {w * in, w, w, std::int64_t{w} * w * 9, w, w, std::int64_t{4} * w * w, 4 * w, 4 * w});
      if (block == 0) add(s, {4 * w * in, 4 * w, 4 * w});
      in = 4 * w;
    }
  }
  add(s, {h * 2048 * 9, h, h, 20 * h, 20 * h, h, h, h, 2 * h * h, 2 * h, 4 * h, 2});
  return s;
}

/// 400 tensors of 10 to 4096 elements: the sizes that Python's random.Random(0).randint(10, 4096) draws.
inline std::vector<std::int64_t> small() {
  std::array<std::uint32_t, 624> mt{};
  mt[0] = 19650218u;
  for (std::uint32_t i = 1; i < 624; ++i) mt[i] = 1812433253u * (mt[i - 1] ^ (mt[i - 1] >> 30)) + i;
  std::uint32_t i = 1;
  const auto wrap = [&] {
    if (++i >= 624) mt[0] = mt[623], i = 1;
  };
  for (int k = 0; k < 624; ++k) mt[i] = (mt[i] ^ ((mt[i - 1] ^ (mt[i - 1] >> 30)) * 1664525u)), wrap();  // key {0}
  for (int k = 0; k < 623; ++k) mt[i] = (mt[i] ^ ((mt[i - 1] ^ (mt[i - 1] >> 30)) * 1566083941u)) - i, wrap();
  mt[0] = 0x80000000u;
  std::uint32_t next = 624;
  const auto bits12 = [&] {
    if (next >= 624) {
      for (std::uint32_t k = 0; k < 624; ++k) {
        const std::uint32_t y = (mt[k] & 0x80000000u) | (mt[(k + 1) % 624] & 0x7fffffffu);
        mt[k] = mt[(k + 397) % 624] ^ (y >> 1) ^ ((y & 1u) != 0 ? 0x9908b0dfu : 0u);
      }
      next = 0;
    }
    std::uint32_t y = mt[next++];
    y ^= y >> 11, y ^= (y << 7) & 0x9d2c5680u, y ^= (y << 15) & 0xefc60000u, y ^= y >> 18;
    return y >> 20;
  };
  std::vector<std::int64_t> s;
  while (s.size() < 400) {
    const std::uint32_t drawn = bits12();
    if (drawn < 4087) s.push_back(10 + drawn);
  }
  return s;
}

/// Ways to store the state, by name.
inline amp::storage_options storage(const std::string& name) {
  using amp::dtype, amp::masters, amp::scale_per;
  if (name == "remainder") return {.masters = masters::remainder};
  if (name == "remainder_bf16") return {.masters = masters::remainder, .moments = dtype::bf16};
  if (name == "remainder_e4m3") return {.masters = masters::remainder, .moments = dtype::e4m3};
  if (name == "remainder_e4m3_blocks")
    return {.masters = masters::remainder, .moments = dtype::e4m3, .scales = scale_per::block};
  if (name == "kahan_bf16") return {.masters = masters::kahan, .moments = dtype::bf16};
  if (name == "stochastic_bf16") return {.masters = masters::stochastic, .moments = dtype::bf16};
  return {};
}

/// Parameters, gradients and optimizer of one list; `step` is what a training step does after backward.
class Job {
 public:
  Job(const std::vector<std::int64_t>& sizes, amp::exec::any executor, const amp::storage_options& storage = {})
      : weights_(make(sizes, 0.02f)), masters_(groups(sizes), storage, std::move(executor)) {}

  [[nodiscard]] std::int64_t elements() const noexcept { return elements_; }
  /// Check, norm, clip, AdamW on fp32 masters, rounded bf16 weights.
  void step() {
    const amp::GradCheck found = masters_.check(1.f);
    if (!found.overflow) masters_.step(1.f, static_cast<float>(amp::clip_factor(found.norm, 1e9)));
  }

 private:
  using Tensors = std::vector<std::vector<amp::bfloat16>>;

  static Tensors make(const std::vector<std::int64_t>& sizes, float deviation) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal(0.f, deviation);
    std::vector<amp::bfloat16> pool(65537);  // drawn once: 148 M normal numbers would take half a minute
    for (auto& x : pool) x = amp::bfloat16(normal(random));
    Tensors tensors;
    std::size_t at = 0;
    for (const std::int64_t size : sizes) {
      tensors.emplace_back(static_cast<std::size_t>(size));
      for (auto& x : tensors.back()) x = pool[at++ % pool.size()];
    }
    return tensors;
  }
  std::vector<amp::GroupSpec<amp::Adam>> groups(const std::vector<std::int64_t>& sizes) {
    grads_ = make(sizes, 1e-3f);
    std::vector<amp::Param> params;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      elements_ += sizes[i];
      params.push_back(amp::make_param(std::to_string(i), weights_[i], grads_[i]));
    }
    return {{amp::Adam{.lr = 1e-6, .weight_decay = 1e-2}, std::make_shared<amp::FixedParams>(std::move(params)), {}}};
  }

  std::int64_t elements_ = 0;
  Tensors weights_, grads_;
  amp::MasterWeights<amp::Adam> masters_;
};

}  // namespace o2_step
