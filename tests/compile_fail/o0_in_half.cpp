// shows: L2
// expect: amp: O0 computes in fp32; start from O1, O2 or O3 to use a lower precision
#include <amp/amp.hpp>

#include "net.hpp"

int main() { auto session = amp::initialize<amp::O0.with(amp::dtype::fp16)>(Net<float>{}, amp::Sgd{.lr = 0.1f}); }
