// An optimizer of the user's, with the functor that it steps by, in a session at O2 in bf16.
#include <amp/amp.hpp>
#include <cstdio>
#include <vector>

struct LionStep {  // how one element moves: by the sign of a mean of gradients (Chen et al. 2023, arXiv:2302.06675)
  float lr, near, far;
  template <class V>
  AMP_INLINE void operator()(V& w, V& m, const V& g) const {
    const V mean = near * m + (1.f - near) * g;
    w = w - amp::simd::select(mean == V(0.f), V(0.f), amp::simd::copysign(V(lr), mean));
    m = far * m + (1.f - far) * g;
  }
};

struct Lion {
  double lr = 1e-3;
  static constexpr int states = 1;
  static constexpr const char* state_names[states] = {"mean"};
  using group = amp::StepGroup<Lion>;
  static void next_step(group& g) { ++g.step; }
  static LionStep functor(const group& g) { return {float(g.options.lr), 0.9f, 0.99f}; }
  void validate(amp::where at) const { amp::expects(lr > 0., "Lion: lr must be positive", at); }
};

template <class T>
struct Net {
  std::vector<T> weight = std::vector<T>(100), grad = std::vector<T>(100);
  template <class U>
  Net<U> cast() const {
    return {};
  }
  std::vector<amp::Param> parameters() { return {amp::make_param("weight", weight, grad)}; }
};

int main() {
  auto session = amp::initialize<amp::O2_bf16>(Net<float>{}, Lion{.lr = 0.01});
  for (int step = 0; step < 400; ++step) {  // 0.5 (w - 1)^2
    session.zero_grad();
    amp::scale_loss(1.f, session, [&net = session.model()](float scale) {
      for (std::size_t i = 0; i < 100; ++i) net.grad[i] = amp::bfloat16(scale * (float(net.weight[i]) - 1.f));
    });
    session.step();
  }
  const double weight = session.model().weight[99];
  return std::printf("weight %g\n", weight) > 0 && weight > 0.95 && weight < 1.05 ? 0 : 1;
}
