/// Optimizers around fp32 masters and other forms of them; instantiated once in each program: in memory_test.cpp and
/// moments_test.cpp, and in threads_test.cpp.
#pragma once
#include <amp/master_weights.hpp>
#include <amp/optim/adam.hpp>
#include <amp/optim/sgd.hpp>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "optim/reference.hpp"

extern template class amp::MasterWeights<amp::Adam>;
extern template class amp::MasterWeights<amp::Sgd>;

namespace test_masters {

/// One group over some tensors.
template <class Opt, class T>
std::vector<amp::GroupSpec<Opt>> group(const Opt& o, T& tensors, const std::string& prefix = "t") {
  return {{o, tensors.source(prefix), {}}};
}

/// Parameters that a test changes while they are used, to freeze one.
struct Changing final : amp::ParamSource {
  std::vector<amp::Param> params;
  explicit Changing(std::vector<amp::Param> all) : params(std::move(all)) {}
  std::span<const amp::Param> refresh() override { return params; }
  void zero_grad(std::size_t, amp::zeroing) override {}
};

/// The saved fp32 values of an entry.
inline std::vector<float> floats(const amp::StateDict& state, const std::string& key) {
  const auto& entry = state.at(key);
  std::vector<float> values(entry.bytes.size() / 4);
  std::memcpy(values.data(), entry.bytes.data(), entry.bytes.size());
  return values;
}
template <class Opt>
amp::StateDict saved(const amp::MasterWeights<Opt>& m) {
  amp::StateDict state;
  m.save(state);
  return state;
}
/// What the first tensor is stepped from, in fp32.
template <class Opt>
std::vector<float> master(const amp::MasterWeights<Opt>& m, const std::string& name = "t0") {
  return floats(saved(m), "master." + name);
}
template <class T>
std::vector<std::uint16_t> words(const std::vector<T>& v) {
  std::vector<std::uint16_t> all;
  for (const T x : v) all.push_back(x.bits());
  return all;
}
inline std::uint32_t word(float x) { return __builtin_bit_cast(std::uint32_t, x); }

}  // namespace test_masters
