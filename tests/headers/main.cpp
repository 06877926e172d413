// shows: X1
#include <cstddef>

std::size_t unit_1();
std::size_t unit_2();
int main() { return unit_1() == 4 && unit_2() == 4 ? 0 : 1; }
