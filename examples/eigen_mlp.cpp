// A two-layer perceptron on Eigen maps learns sin(3x): bf16 weights, fp32 masters; the maps view memory of the user's.
#include <Eigen/Core>
#include <amp/adapters/eigen.hpp>
#include <amp/amp.hpp>
#include <cmath>
#include <cstdio>
#include <vector>

using Row = Eigen::Array<float, 1, 16>;

template <class T>
struct Mlp {  // y = w2 tanh(w1 x + b): w1, b and w2 are the rows of one array
  std::vector<T> weight = std::vector<T>(48), grad = std::vector<T>(48);
  float input = 0.f;
  Row hidden = Row::Zero();

  static auto map(std::vector<T>& v) { return Eigen::Map<Eigen::Array<T, 3, 16, Eigen::RowMajor>>(v.data()); }
  template <class U>
  Mlp<U> cast() const {
    return {{weight.begin(), weight.end()}};
  }
  std::vector<amp::Param> parameters() {
    auto w = map(weight), g = map(grad);
    return {amp::make_param("w1, b, w2", w, g)};
  }
  Row row(int i) { return map(weight).row(i).template cast<float>(); }
  float forward(float x) { return (row(2) * (hidden = (row(0) * (input = x) + row(1)).tanh())).sum(); }
  void backward(float error) {
    const Row into = error * row(2) * (1.f - hidden.square());
    map(grad).row(0) += (into * input).cast<T>(), map(grad).row(1) += into.cast<T>();
    map(grad).row(2) += (error * hidden).cast<T>();
  }
};

int main() {
  Mlp<float> start;
  start.map(start.weight).setRandom();
  auto session = amp::initialize<amp::O2_bf16>(start, amp::Adam{.lr = 0.01});
  auto& net = session.model();  // an Mlp<amp::bfloat16>
  float mean = 0.f;
  for (int step = 0; step < 6000; ++step) {
    const float x = float(step * 7 % 41) / 20.f - 1.f, err = net.forward(x) - std::sin(3.f * x);
    mean += 0.01f * (err * err - mean);
    session.zero_grad();
    amp::scale_loss(0.5f * err * err, session, [&](float s) { net.backward(err == 0 ? 0 : 2 * s / err); });
    session.step();
  }
  std::printf("mean squared error %.5f\n", mean);
  return mean < 0.01f ? 0 : 1;
}
