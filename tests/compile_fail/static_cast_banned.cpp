// shows: C7
// expect: amp: this operation is banned for low inputs; use a form that is safe in low precision
#include <amp/cast/cast.hpp>
#include <vector>

int main() {
  const auto f = [](const auto&...) {};
  [[maybe_unused]] std::vector<amp::half> low(1);
  [[maybe_unused]] std::vector<amp::bfloat16> other(1);
  amp::op<amp::cast::per_op<amp::dtype::fp16>, "binary_cross_entropy">(f, low, low);
}
