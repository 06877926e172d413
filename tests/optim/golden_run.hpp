/// Runs an optimizer over the tensors of the recorded trajectories (tests/golden/optim_torch.py).
#pragma once
#include <amp/master_weights.hpp>
#include <amp/optim/param_source.hpp>
#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "golden/optim_torch.hpp"

namespace golden {

/// Weights and gradients of the recorded runs, in fp32, where all of them are exact.
struct Tensors {
  std::vector<std::vector<float>> w, g;

  Tensors() {
    int i = 0;
    for (const std::size_t n : optim_sizes) {
      w.emplace_back(), g.emplace_back(n);
      for (std::size_t k = 0; k < n; ++k, ++i) w.back().push_back(static_cast<float>((i * 29) % 17 - 8) / 4.f);
    }
  }
  void draw_grads(int t) {
    int i = 0;
    for (auto& tensor : g)
      for (float& x : tensor) x = static_cast<float>((t * 37 + i++ * 23) % 41 - 20) / 16.f;
  }
  [[nodiscard]] std::vector<amp::Param> params() {
    std::vector<amp::Param> all;
    for (std::size_t k = 0; k < w.size(); ++k) all.push_back(amp::make_param("t" + std::to_string(k), w[k], g[k]));
    return all;
  }
};

/// The largest difference from a recorded trajectory's end, relative to max(1, |w|).
inline double difference(const std::vector<std::vector<float>>& w, const std::vector<double>& expected) {
  double worst = 0.;
  std::size_t i = 0;
  for (const auto& tensor : w) {
    for (const float x : tensor) {
      const double off = std::fabs(static_cast<double>(x) - expected.at(i)) / std::fmax(1., std::fabs(expected.at(i)));
      worst = std::isnan(off) ? off : std::fmax(worst, off);
      ++i;
    }
  }
  return i == expected.size() ? worst : 1e9;
}

/// The difference after the recorded number of steps with `opt`.
template <class Opt>
double difference(const Opt& opt, const std::string& name) {
  Tensors tensors;
  std::vector<amp::GroupSpec<Opt>> groups;
  groups.push_back({opt, std::make_shared<amp::FixedParams>(tensors.params())});
  amp::MasterWeights<Opt> masters(std::move(groups));
  for (int t = 1; t <= optim_steps; ++t) {
    tensors.draw_grads(t);
    masters.step();
  }
  return difference(tensors.w, optim_weights.at(name));
}

}  // namespace golden
