// shows: Q1
// expect: amp: e5m2 in the forward pass is refused, two mantissa bits are too few for activations and weights; use fp8::hybrid_formats
#include <amp/nn/fp8_recipe.hpp>

int main() {
  using pure = amp::fp8::formats<amp::e5m2, amp::e5m2>;
  return static_cast<int>(sizeof(amp::fp8::format<amp::fp8::current_scaling<pure>, amp::fp8::operand::weight>));
}
