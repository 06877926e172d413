// shows: L2
// expect: amp: patch_functions is for O1 and cast_model_type for O2 and O3, a level has one of them; start from
#include <amp/amp.hpp>

#include "net.hpp"

int main() { auto session = amp::initialize<amp::O2.with_patch_functions(true)>(Net<float>{}, amp::Sgd{.lr = 0.1f}); }
