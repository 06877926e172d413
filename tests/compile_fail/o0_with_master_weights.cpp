// shows: L2
// expect: amp: O0 keeps fp32 weights, so master_weights has nothing to copy; start from O2
#include <amp/amp.hpp>

#include "net.hpp"

int main() { auto session = amp::initialize<amp::O0.with_master_weights(true)>(Net<float>{}, amp::Sgd{.lr = 0.1f}); }
