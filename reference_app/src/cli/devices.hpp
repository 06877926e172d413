/// Which devices this program can compute on, and why not on others.
#pragma once
#include <string>
#include <vector>

namespace clipbert::cli {

/// What the program computes on.
struct Devices {
  std::string cpu;                ///< model name and number of cores
  std::vector<std::string> cuda;  ///< names, by index
  std::string why_no_cuda;        ///< empty if there is a device
};

/// Looks for devices; LibTorch's CUDA part is loaded on the way if it is installed.
[[nodiscard]] Devices find_devices();

/// The name of the processor as the system tells it.
[[nodiscard]] std::string cpu_name();

}  // namespace clipbert::cli
