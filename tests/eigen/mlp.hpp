/// A two-layer perceptron over Eigen, 1 -> Hidden -> 1, whose parameters are stored as T; it computes in fp32.
#pragma once
#include <Eigen/Core>
#include <amp/adapters/eigen.hpp>
#include <amp/amp.hpp>
#include <cmath>
#include <vector>

template <class T, int Hidden = 16>
struct Mlp {
  template <int R, int C>
  using Matrix = Eigen::Matrix<T, R, C>;
  Matrix<Hidden, 1> w1 = init<Hidden, 1>(1.5f), b1 = init<Hidden, 1>(1.f), w1_grad = zero<Hidden, 1>(),
                    b1_grad = zero<Hidden, 1>();
  Matrix<1, Hidden> w2 = init<1, Hidden>(0.3f), w2_grad = zero<1, Hidden>();
  Matrix<1, 1> b2 = zero<1, 1>(), b2_grad = zero<1, 1>();

  template <class U>
  [[nodiscard]] Mlp<U, Hidden> cast() const {
    Mlp<U, Hidden> net;
    net.w1 = w1.template cast<U>(), net.b1 = b1.template cast<U>();
    net.w2 = w2.template cast<U>(), net.b2 = b2.template cast<U>();
    return net;
  }
  [[nodiscard]] std::vector<amp::Param> parameters() {
    return {amp::make_param("w1", w1, w1_grad), amp::make_param("b1", b1, b1_grad, amp::role::bias),
            amp::make_param("w2", w2, w2_grad), amp::make_param("b2", b2, b2_grad, amp::role::bias)};
  }

  [[nodiscard]] float forward(float x) {
    input_ = x;
    hidden_ = (w1.template cast<float>() * x + b1.template cast<float>()).array().tanh().matrix();
    return (w2.template cast<float>() * hidden_)(0) + static_cast<float>(b2(0));
  }
  /// Adds the gradients; `error` is the derivative of the (scaled) loss by the output.
  void backward(float error) {
    const Eigen::Matrix<float, Hidden, 1> into =
        error * (w2.template cast<float>().transpose().array() * (1.f - hidden_.array().square())).matrix();
    w2_grad += (error * hidden_.transpose()).template cast<T>();
    b2_grad(0) += T(error);
    w1_grad += (into * input_).template cast<T>();
    b1_grad += into.template cast<T>();
  }

 private:
  template <int R, int C>
  static Matrix<R, C> zero() {
    return Matrix<R, C>::Zero();
  }
  /// Spread evenly over [-range, range]: the example gives the same result everywhere.
  template <int R, int C>
  static Matrix<R, C> init(float range) {
    Matrix<R, C> m;
    for (int i = 0; i < R * C; ++i) m(i) = T(range * std::sin(1.f + 2.3f * static_cast<float>(i) + 10.f * range));
    return m;
  }

  float input_ = 0.f;
  Eigen::Matrix<float, Hidden, 1> hidden_ = Eigen::Matrix<float, Hidden, 1>::Zero();
};

/// Trains sin(3x) on [-1, 1], eight samples a step, and returns the mean squared error.
template <amp::OptLevel L>
float train_mlp(int steps) {
  auto session = amp::initialize<L>(Mlp<float>{}, amp::Adam{.lr = 0.02});
  auto& net = session.model();
  const auto target = [](float x) { return std::sin(3.f * x); };
  for (int step = 0; step < steps; ++step) {
    session.zero_grad();
    for (int i = 0; i < 8; ++i) {  // eight losses summed in the gradients, one step
      const float x = static_cast<float>((step * 8 + i) % 41) / 20.f - 1.f;
      const float err = net.forward(x) - target(x);
      amp::scale_loss(err * err / 16.f, session, [&](float) { net.backward(err / 8.f * session.loss_scale()); },
                      {.delay_unscale = i < 7});
    }
    amp::clip_grad_norm(session, 1.);
    session.step();
  }
  float sum = 0.f;
  for (int i = 0; i <= 40; ++i) {
    const float x = static_cast<float>(i) / 20.f - 1.f, err = net.forward(x) - target(x);
    sum += err * err;
  }
  return sum / 41.f;
}
