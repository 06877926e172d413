// shows: L2
// expect: amp: per-op casting (O1) wraps a tensor library's operations, and this network has none to wrap; use O2, or
// amp_torch
#include <amp/amp.hpp>

#include "net.hpp"

int main() { auto session = amp::initialize<amp::O1>(Net<float>{}, amp::Sgd{.lr = 0.1f}); }
