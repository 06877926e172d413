// expect: amp: this executor has no launch() here: include <amp/cuda/multi_tensor_apply.cuh> in a .cu file, or
#include <amp/fn/copy.hpp>
#include <amp/multi_tensor_apply.hpp>
#include <vector>

struct Device {
  long chunk = 65536;
};

int main() {
  std::vector<std::vector<float>> to(1), from(1);
  amp::multi_tensor_apply(Device{}, amp::fn::Copy{}, to, std::as_const(from));
}
