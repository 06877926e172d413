// shows: C7
// expect: amp: this operation stands in no list of the cast policy; add it as low, fp32, promote or free
#include <amp/cast/cast.hpp>
#include <vector>

struct Strict : amp::cast::per_op<amp::dtype::fp16> {
  static constexpr bool strict = true;
};
int main() {
  const auto f = [](const auto&...) {};
  [[maybe_unused]] std::vector<amp::half> low(1);
  [[maybe_unused]] std::vector<amp::bfloat16> other(1);
  amp::op<Strict, "blur">(f, low);
}
