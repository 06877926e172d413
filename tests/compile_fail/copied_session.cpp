// expect: deleted
#include <amp/amp.hpp>

#include "net.hpp"

int main() {
  auto session = amp::initialize<amp::O2>(Net<float>{}, amp::Sgd{.lr = 0.1f});
  auto copy = session;
}
