#include "cli/devices.hpp"

#include <c10/core/Device.h>
#include <dlfcn.h>
#include <torch/cuda.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace clipbert::cli {
namespace {

/// LibTorch's CUDA part registers itself when it is loaded, which must be before the first question about CUDA: the
/// answer is kept. It is not linked, so that one program serves machines with and without it.
std::string load_cuda_part() {
  if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) != nullptr) return {};
  const char* reason = dlerror();
  return reason == nullptr ? "libtorch_cuda.so cannot be loaded" : reason;
}

}  // namespace

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, 10, "model name") != 0) continue;
    const auto colon = line.find(':');
    if (colon != std::string::npos && colon + 2 < line.size()) return line.substr(colon + 2);
  }
  return "unknown processor";
}

Devices find_devices() {
  Devices found;
  found.cpu = cpu_name() + ", " + std::to_string(std::thread::hardware_concurrency()) + " cores";
  if (!std::filesystem::exists("/dev/nvidiactl")) {
    found.why_no_cuda = "no NVIDIA driver is loaded (no /dev/nvidiactl)";
    return found;
  }
  if (const std::string reason = load_cuda_part(); !reason.empty()) {
    found.why_no_cuda = "LibTorch's CUDA part cannot be loaded: " + reason;
    return found;
  }
  const auto count = torch::cuda::is_available() ? torch::cuda::device_count() : 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) found.cuda.push_back("cuda:" + std::to_string(i));
  if (found.cuda.empty()) found.why_no_cuda = "LibTorch finds no usable CUDA device";
  return found;
}

}  // namespace clipbert::cli
