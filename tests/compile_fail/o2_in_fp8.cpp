// shows: L2
// expect: amp: fp8 is a GEMM operand format, weights are not stored in it; use O2_bf16.with(fp8::hybrid)
#include <amp/amp.hpp>

#include "net.hpp"

int main() { auto session = amp::initialize<amp::O2.with(amp::dtype::e4m3)>(Net<float>{}, amp::Sgd{.lr = 0.1f}); }
