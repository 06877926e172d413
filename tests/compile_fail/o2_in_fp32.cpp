// shows: L2
// expect: amp: O1, O2 and O3 compute in fp16 or bf16; start from O0 to compute in fp32
#include <amp/amp.hpp>

#include "net.hpp"

int main() { auto session = amp::initialize<amp::O2.with(amp::dtype::fp32)>(Net<float>{}, amp::Sgd{.lr = 0.1f}); }
