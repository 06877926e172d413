// expect: amp: the network needs cast<T>() returning itself with parameters stored as T
#include <amp/amp.hpp>

struct Fixed {
  std::vector<amp::Param> parameters() { return {}; }
};

int main() { auto session = amp::initialize<amp::O2>(Fixed{}, amp::Sgd{.lr = 0.1f}); }
