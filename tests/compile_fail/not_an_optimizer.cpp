// expect: amp: not an optimizer: it needs states, next_step(group) and functor(group)
#include <amp/amp.hpp>

#include "net.hpp"

int main() { auto session = amp::initialize<amp::O2>(Net<float>{}, 3); }
