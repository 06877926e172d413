// shows: C7
// expect: amp: the in-place form of an fp32 operation cannot store its result in a low tensor; use the form
#include <amp/cast/cast.hpp>
#include <vector>

int main() {
  const auto f = [](const auto&...) {};
  [[maybe_unused]] std::vector<amp::half> low(1);
  [[maybe_unused]] std::vector<amp::bfloat16> other(1);
  amp::op<amp::cast::per_op<amp::dtype::fp16>, "exp_">(f, low);
}
