// shows: L2
// expect: amp: an fp8 recipe quantises the operands of a bf16 level; start from O1_bf16 or O2_bf16
#include <amp/amp.hpp>

#include "net.hpp"

int main() { auto session = amp::initialize<amp::O2.with(amp::fp8::hybrid)>(Net<float>{}, amp::Sgd{.lr = 0.1f}); }
