/// A linear unit over Eigen whose parameters are stored as T; products and sums are fp32.
#pragma once
#include <Eigen/Core>
#include <amp/adapters/eigen.hpp>
#include <amp/optim/param_source.hpp>
#include <vector>

template <class T>
struct Linear {
  Eigen::Matrix<T, 4, 1> weight = Eigen::Matrix<T, 4, 1>::Zero(), weight_grad = Eigen::Matrix<T, 4, 1>::Zero();
  Eigen::Matrix<T, 1, 1> bias = Eigen::Matrix<T, 1, 1>::Zero(), bias_grad = Eigen::Matrix<T, 1, 1>::Zero();

  template <class U>
  [[nodiscard]] Linear<U> cast() const {
    Linear<U> net;
    net.weight = weight.template cast<U>();
    net.bias = bias.template cast<U>();
    return net;
  }
  [[nodiscard]] std::vector<amp::Param> parameters() {
    return {amp::make_param("weight", weight, weight_grad), amp::make_param("bias", bias, bias_grad, amp::role::bias)};
  }

  [[nodiscard]] float forward(const Eigen::Vector4f& x) const {
    return weight.template cast<float>().dot(x) + static_cast<float>(bias[0]);
  }
  /// Adds the gradients of a loss whose derivative by the output is `error`.
  void backward(const Eigen::Vector4f& x, float error) {
    weight_grad += (error * x).cast<T>();
    bias_grad[0] += T(error);
  }
};
