#include "train/memory.hpp"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>

namespace clipbert::train {
namespace {

/// LibTorch's allocator reports to it every tensor that is made or freed.
struct Counter final : c10::MemoryReportingInfoBase {
  std::atomic<std::int64_t> now{0}, peak{0};

  void reportMemoryUsage(void*, std::int64_t size, std::size_t, std::size_t, c10::Device) override {
    const std::int64_t total = now += size;
    std::int64_t most = peak;
    while (total > most && !peak.compare_exchange_weak(most, total)) {
    }
  }
  [[nodiscard]] bool memoryProfilingEnabled() const override { return true; }
};

}  // namespace

struct MemoryMeter::State {
  std::shared_ptr<Counter> counter = std::make_shared<Counter>();
  c10::DebugInfoGuard guard{c10::DebugInfoKind::PROFILER_STATE, counter};
};

MemoryMeter::MemoryMeter() : state_(std::make_unique<State>()) {}
MemoryMeter::~MemoryMeter() = default;
std::int64_t MemoryMeter::now() const noexcept { return state_->counter->now; }
std::int64_t MemoryMeter::peak() const noexcept { return state_->counter->peak; }

std::int64_t peak_rss() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  return static_cast<std::int64_t>(use.ru_maxrss) * 1024;  // Linux counts in KiB
}

std::int64_t current_rss() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * static_cast<std::int64_t>(sysconf(_SC_PAGESIZE));
}

void keep_freed_memory() {
  setenv("THP_MEM_ALLOC_ENABLE", "1", /*overwrite=*/0);  // LibTorch: madvise huge pages for tensors of 2 MiB and more
#if defined(__GLIBC__)
  if (std::getenv("MALLOC_TRIM_THRESHOLD_") == nullptr) mallopt(M_TRIM_THRESHOLD, -1);
  if (std::getenv("MALLOC_MMAP_MAX_") == nullptr) mallopt(M_MMAP_MAX, 0);
  if (std::getenv("MALLOC_TOP_PAD_") == nullptr) mallopt(M_TOP_PAD, 64 << 20);
#endif
}

}  // namespace clipbert::train
