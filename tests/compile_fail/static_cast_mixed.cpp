// shows: C7 C2
// expect: amp: fp16 and bf16 inputs meet in one operation, which have no common low type; cast one of them
#include <amp/cast/cast.hpp>
#include <vector>

int main() {
  const auto f = [](const auto&...) {};
  [[maybe_unused]] std::vector<amp::half> low(1);
  [[maybe_unused]] std::vector<amp::bfloat16> other(1);
  amp::op<amp::cast::per_op<amp::dtype::fp16>, "add">(f, low, other);
}
