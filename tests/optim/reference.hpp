/// Optimizers over plain vectors, and reference loops in double, written from the formulas.
#pragma once
#include <amp/half_traits.hpp>
#include <amp/master_weights.hpp>
#include <amp/optim/param_source.hpp>
#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace reference {

/// Some tensors of a storage type, with gradients of another.
template <class W, class G = W>
struct Tensors {
  std::vector<std::vector<W>> w;
  std::vector<std::vector<G>> g;

  explicit Tensors(const std::vector<std::size_t>& sizes, unsigned seed = 1) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (const std::size_t n : sizes) {
      w.emplace_back(n), g.emplace_back(n);
      for (auto& x : w.back()) x = W(normal(random));
      for (auto& x : g.back()) x = G(normal(random));
    }
  }
  void draw_grads(unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (auto& t : g)
      for (auto& x : t) x = G(normal(random));
  }
  [[nodiscard]] std::vector<amp::Param> params(const std::string& prefix = "t") {
    std::vector<amp::Param> all;
    for (std::size_t i = 0; i < w.size(); ++i) all.push_back(amp::make_param(prefix + std::to_string(i), w[i], g[i]));
    return all;
  }
  [[nodiscard]] std::shared_ptr<amp::ParamSource> source(const std::string& prefix = "t") {
    return std::make_shared<amp::FixedParams>(params(prefix));
  }
};

/// Two parameters, of which the second has a gradient only when told so.
struct Partial final : amp::ParamSource {
  std::vector<float> w{1.f, 1.f}, g{1.f, 1.f};
  bool second_has_grad = false;
  std::vector<amp::Param> list{};
  std::span<const amp::Param> refresh() override {
    list.clear();
    for (std::size_t i = 0; i < 2; ++i)
      list.push_back({.name = "p" + std::to_string(i),
                      .value = &w[i],
                      .grad = i == 0 || second_has_grad ? &g[i] : nullptr,
                      .size = 1});
    return list;
  }
  void zero_grad(std::size_t, amp::zeroing) override {}
};

/// One element in double.
struct Element {
  double w, a = 0., b = 0.;
  int t = 0;
};

/// Steps tensors of float with `opt`, and each element with `formula(element, gradient)` in double; returns the largest
/// difference relative to max(1, |w|).
template <class Opt, class Formula>
double difference(const Opt& opt, int steps, Formula&& formula) {
  Tensors<float> tensors({1, 7, 64, 333});
  std::vector<std::vector<Element>> expected;
  for (const auto& t : tensors.w) {
    expected.emplace_back();
    for (const float x : t) expected.back().push_back({x});
  }
  std::vector<amp::GroupSpec<Opt>> groups;
  groups.push_back({opt, tensors.source()});
  amp::MasterWeights<Opt> masters(std::move(groups));
  double worst = 0.;
  for (int step = 1; step <= steps; ++step) {
    tensors.draw_grads(static_cast<unsigned>(step));
    masters.step();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      for (std::size_t k = 0; k < expected[i].size(); ++k) {
        Element& e = expected[i][k];
        e.t = step;
        formula(e, static_cast<double>(tensors.g[i][k]));
        const double off = std::fabs(e.w - static_cast<double>(tensors.w[i][k])) / std::fmax(1., std::fabs(e.w));
        worst = std::isnan(off) ? off : std::fmax(worst, off);
      }
    }
  }
  return worst;
}

}  // namespace reference
