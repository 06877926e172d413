/// The work of the O2 step in two plain loops, as one writes them by hand for this one case: AdamW, fp32 masters and
/// moments, bf16 gradients and weights. Compiled for the machine at hand, and vectorised by the compiler.
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "o2_step.hpp"
#include "o2_step_server.hpp"

namespace {

struct Tensor {
  std::vector<float> w, m, v;
  std::vector<std::uint16_t> grad, low;

  explicit Tensor(std::int64_t n)
      : w(static_cast<std::size_t>(n), 0.02f), m(w.size()), v(w.size()), grad(w.size(), 0x3a83), low(w.size()) {}
};
struct Piece {
  Tensor* tensor;
  std::size_t begin, end;
};

float wide(std::uint16_t bits) {
  const std::uint32_t word = std::uint32_t{bits} << 16;
  float x = 0;
  std::memcpy(&x, &word, sizeof x);
  return x;
}
std::uint16_t narrow(float x) {  // to nearest even; no NaN comes here
  std::uint32_t word = 0;
  std::memcpy(&word, &x, sizeof word);
  return static_cast<std::uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
}

double sum_of_squares(const std::uint16_t* g, std::size_t n) {
  constexpr std::size_t lanes = 64;
  float sum[lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (std::size_t k = 0; k < lanes; ++k) sum[k] += wide(g[i + k]) * wide(g[i + k]);
  }
  double total = 0;
  for (; i < n; ++i) total += static_cast<double>(wide(g[i]) * wide(g[i]));
  for (const float s : sum) total += static_cast<double>(s);
  return total;
}
void adamw(Tensor& t, std::size_t begin, std::size_t n, float clip, float rate, float decay, float inverse_root) {
  float* __restrict w = t.w.data() + begin, * __restrict m = t.m.data() + begin, * __restrict v = t.v.data() + begin;
  const std::uint16_t* __restrict grad = t.grad.data() + begin;
  std::uint16_t* __restrict low = t.low.data() + begin;
  for (std::size_t i = 0; i < n; ++i) {
    const float g = wide(grad[i]) * clip;
    m[i] = 0.9f * m[i] + 0.1f * g;
    v[i] = 0.999f * v[i] + 0.001f * g * g;
    w[i] = decay * w[i] - rate * m[i] / (std::sqrt(v[i]) * inverse_root + 1e-8f);
    low[i] = narrow(w[i]);
  }
}

/// Pieces of at most 65536 elements, shared out by a counter.
template <class F>
void each(const std::vector<Piece>& pieces, int threads, const F& f) {
  std::atomic<std::size_t> next{0};
  const auto work = [&](int id) {
    for (std::size_t i = next++; i < pieces.size(); i = next++) f(id, pieces[i]);
  };
  std::vector<std::thread> others;
  for (int id = 1; id < threads; ++id) others.emplace_back(work, id);
  work(0);
  for (auto& thread : others) thread.join();
}

}  // namespace

int main(int argc, char** argv) {
  const auto options = o2_step::parse(argc, argv);
  const auto sizes = options.list == "big" ? o2_step::big() : o2_step::small();
  std::vector<Tensor> tensors;
  tensors.reserve(sizes.size());
  std::vector<Piece> pieces;
  for (const std::int64_t size : sizes) {
    tensors.emplace_back(size);
    const auto n = static_cast<std::size_t>(size);
    for (std::size_t i = 0; i < n; i += 65536) pieces.push_back({&tensors.back(), i, std::min(n, i + 65536)});
  }
  int t = 0;
  return o2_step::serve(sizes, [&] {
    std::vector<double> sums(static_cast<std::size_t>(options.threads) * 8);  // a cache line each
    each(pieces, options.threads, [&](int id, const Piece& p) {
      sums[static_cast<std::size_t>(id) * 8] += sum_of_squares(p.tensor->grad.data() + p.begin, p.end - p.begin);
    });
    double square = 0;
    for (const double s : sums) square += s;
    if (!std::isfinite(square)) return;
    ++t;
    const auto clip = static_cast<float>(std::min(1., 1e9 / (std::sqrt(square) + 1e-6)));
    const auto rate = static_cast<float>(1e-6 / (1 - std::pow(0.9, t)));
    const auto inverse_root = static_cast<float>(1 / std::sqrt(1 - std::pow(0.999, t)));
    each(pieces, options.threads, [&](int /*id*/, const Piece& p) {
      adamw(*p.tensor, p.begin, p.end - p.begin, clip, rate, 1.f - 1e-6f * 1e-2f, inverse_root);
    });
  });
}
