// The same small network in fp32 and in mixed precision, over Eigen.
#include <cstdio>

#include "mlp.hpp"

int main() {
  std::printf("mean squared error of sin(3x) after 600 steps\n");
  std::printf("  O0       %.5f\n", train_mlp<amp::O0>(600));
  std::printf("  O2       %.5f\n", train_mlp<amp::O2>(600));
  std::printf("  O2_bf16  %.5f\n", train_mlp<amp::O2_bf16>(600));
}
