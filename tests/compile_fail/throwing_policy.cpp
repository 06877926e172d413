// shows: S5
// expect-gcc: constraints not satisfied
// expect-gcc: is not 'noexcept'
// expect-clang: does not satisfy 'ScalePolicy'
// expect-clang: may throw an exception
#include <amp/loss_scaler.hpp>

struct Throwing {
  static constexpr bool skips = true;
  float initial() const noexcept { return 1.f; }
  float next(float scale, bool) { return scale; }
};

int main() { amp::LossScaler<Throwing> scaler; }
