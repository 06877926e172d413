// The toolkit over std::vector alone: no tensor library, no matrix library. Fits y = 3x - 1 with fp16 parameters.
#include <amp/amp.hpp>
#include <cmath>
#include <cstdio>
#include <vector>

template <class T>
struct Line {
  std::vector<T> weight{T(0.f), T(0.f)}, grad{T(0.f), T(0.f)};  // slope, offset

  template <class U>
  Line<U> cast() const {
    Line<U> line;
    for (std::size_t i = 0; i < weight.size(); ++i) line.weight[i] = U(static_cast<float>(weight[i]));
    return line;
  }
  std::vector<amp::Param> parameters() { return {amp::make_param("line", weight, grad)}; }

  float forward(float x) const { return static_cast<float>(weight[0]) * x + static_cast<float>(weight[1]); }
  void backward(float x, float error) {
    grad[0] = T(static_cast<float>(grad[0]) + error * x);
    grad[1] = T(static_cast<float>(grad[1]) + error);
  }
};

int main() {
  auto session = amp::initialize<amp::O2>(Line<float>{}, amp::Adam{.lr = 0.05});
  auto& line = session.model();  // a Line<amp::half>
  for (int step = 0; step < 400; ++step) {
    const float x = static_cast<float>(step % 8) / 4.f - 1.f;
    const float err = line.forward(x) - (3.f * x - 1.f);
    session.zero_grad();
    amp::scale_loss(0.5f * err * err, session, [&](float) { line.backward(x, err * session.loss_scale()); });
    if (session.step() == amp::Verdict::skip)
      std::printf("step %d skipped, scale now %g\n", step, session.loss_scale());
  }
  const float slope = static_cast<float>(line.weight[0]), offset = static_cast<float>(line.weight[1]);
  std::printf("y = %.3f x %+.3f after %lld steps, %lld skipped\n", slope, offset,
              static_cast<long long>(session.steps()), static_cast<long long>(session.skipped()));
  return std::fabs(slope - 3.f) < 0.05f && std::fabs(offset + 1.f) < 0.05f ? 0 : 1;
}
