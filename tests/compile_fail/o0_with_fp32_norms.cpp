// shows: L2
// expect: amp: O0 keeps fp32 weights, so keep_batchnorm_fp32 has nothing to keep; start from O2
#include <amp/amp.hpp>

#include "net.hpp"

int main() { auto session = amp::initialize<amp::O0.with_fp32_norms(true)>(Net<float>{}, amp::Sgd{.lr = 0.1f}); }
