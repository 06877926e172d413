// shows: S8
// expect: amp: step() takes no closure while the loss is scaled, its backward would go around scale_loss; call
#include <amp/amp.hpp>

#include "net.hpp"

int main() {
  auto session = amp::initialize<amp::O2>(Net<float>{}, amp::Sgd{.lr = 0.1f});
  session.step([] {});
}
