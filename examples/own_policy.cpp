// A loss-scale policy of the user's: a quarter after an overflow, an eighth more after each clean step.
#include <amp/amp.hpp>
#include <cstdio>

struct Cautious {
  static constexpr bool skips = true;
  constexpr float initial() const noexcept { return 0x1p20f; }
  constexpr float next(float scale, bool overflow) noexcept { return overflow ? scale / 4.f : scale * 1.125f; }
};

int main() {
  amp::LossScaler scaler{Cautious{}};
  int skipped = 0;
  for (int step = 0; step < 100; ++step) {
    const bool overflow = scaler.scale() > 65504.f;  // as if the largest unscaled gradient were 1
    if (scaler.update(overflow) == amp::Verdict::skip) ++skipped;
  }
  std::printf("%d of 100 steps skipped, scale %g\n", skipped, scaler.scale());
  return skipped > 2 && skipped < 20 && scaler.scale() > 8192.f ? 0 : 1;
}
