// shows: L2 B16
// expect: amp: per-op casting (O1) keeps fp32 weights, so keep_batchnorm_fp32 has nothing to keep; start from O2
#include <amp/amp.hpp>

#include "net.hpp"

int main() { auto session = amp::initialize<amp::O1.with_fp32_norms(true)>(Net<float>{}, amp::Sgd{.lr = 0.1f}); }
