/// A net with two low tensors and one that stays fp32 (a norm), whose gradients are set by hand.
#pragma once
#include <amp/half_traits.hpp>
#include <amp/optim/param_source.hpp>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace toolkit_test {

template <class T>
struct Net {
  std::vector<T> a, b, a_grad, b_grad;
  std::vector<float> n, n_grad;

  explicit Net(std::size_t size = 5) : a(size), b(size + 2), a_grad(size), b_grad(size + 2), n(3), n_grad(3) {
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = T(1.f + 0.1f * static_cast<float>(i));
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = T(-1.f + 0.05f * static_cast<float>(i));
    for (std::size_t i = 0; i < n.size(); ++i) n[i] = 1.f;
  }
  template <class U>
  [[nodiscard]] Net<U> cast(bool /*fp32_norms*/) const {
    Net<U> net(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) net.a[i] = U(float(a[i]));
    for (std::size_t i = 0; i < b.size(); ++i) net.b[i] = U(float(b[i]));
    net.n = n;
    return net;
  }
  [[nodiscard]] std::vector<amp::Param> parameters() {
    return {amp::make_param("a", a, a_grad), amp::make_param("b", b, b_grad),
            amp::make_param("n", n, n_grad, amp::role::norm)};
  }
  /// Adds gradients, as a backward does: `base` times a pattern, times the loss scale.
  void backward(float scale, float base = 1.f) {
    for (std::size_t i = 0; i < a.size(); ++i)
      a_grad[i] = T(float(a_grad[i]) + scale * base * (0.25f + 0.5f * static_cast<float>(i)));
    for (std::size_t i = 0; i < b.size(); ++i) b_grad[i] = T(float(b_grad[i]) - scale * base * 0.125f);
    for (std::size_t i = 0; i < n.size(); ++i) n_grad[i] += scale * base * 0.5f;
  }
  /// 2-norm of the unscaled gradients of one backward.
  [[nodiscard]] double norm(double base = 1.) const {
    double sum = 0.;
    for (std::size_t i = 0; i < a.size(); ++i) sum += base * base * (0.25 + 0.5 * double(i)) * (0.25 + 0.5 * double(i));
    sum += base * base * (double(b.size()) * 0.125 * 0.125 + double(n.size()) * 0.25);
    return std::sqrt(sum);
  }
};

/// All weights as floats, to compare two nets.
template <class T>
std::vector<float> weights(const Net<T>& net) {
  std::vector<float> all;
  for (const T x : net.a) all.push_back(float(x));
  for (const T x : net.b) all.push_back(float(x));
  all.insert(all.end(), net.n.begin(), net.n.end());
  return all;
}

/// The fp32 values that the session's optimizers step.
template <class S>
std::vector<float> masters(S& session) {
  std::vector<float> all;
  for (const amp::Param& p : session.optimizer().master_params()) {
    const auto* values = static_cast<const float*>(p.value);
    all.insert(all.end(), values, values + p.size);
  }
  return all;
}

}  // namespace toolkit_test
