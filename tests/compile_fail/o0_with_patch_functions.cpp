// shows: L2
// expect: amp: patch_functions (O1) casts to fp16 or bf16; start from O1, or from O0 to compute in fp32
#include <amp/amp.hpp>

#include "net.hpp"

int main() { auto session = amp::initialize<amp::O0.with_patch_functions(true)>(Net<float>{}, amp::Sgd{.lr = 0.1f}); }
