#include "train/memory.hpp"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace clipbert::train {
namespace {

/// LibTorch's allocator with a count while a meter lives. Tensors remember who made them, and free and resize by it, so
/// it is there as long as the program; only one meter counts at a time.
class CountingAllocator final : public c10::Allocator {
 public:
  static CountingAllocator& instance() {
    static CountingAllocator allocator;
    return allocator;
  }
  /// -> the allocator to go back to
  c10::Allocator* begin() {
    c10::Allocator* before = c10::GetCPUAllocator();
    const std::lock_guard lock(mutex_);
    if (before != this) inner_ = before;
    sizes_.clear();
    now_ = peak_ = 0;
    counts_ = true;
    return before;
  }
  void end() {
    const std::lock_guard lock(mutex_);
    counts_ = false;
  }
  [[nodiscard]] std::int64_t now() {
    const std::lock_guard lock(mutex_);
    return now_;
  }
  [[nodiscard]] std::int64_t peak() {
    const std::lock_guard lock(mutex_);
    return peak_;
  }

  c10::DataPtr allocate(std::size_t size) override {
    void* data = inner_->raw_allocate(size);
    const std::lock_guard lock(mutex_);
    if (counts_ && data != nullptr) {
      sizes_[data] = static_cast<std::int64_t>(size);
      now_ += static_cast<std::int64_t>(size);
      peak_ = std::max(peak_, now_);
    }
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t count) const override { inner_->copy_data(to, from, count); }

 private:
  static void release(void* data) { instance().forget(data); }
  void forget(void* data) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = sizes_.find(data); found != sizes_.end()) {
        now_ -= found->second;
        sizes_.erase(found);
      }
    }
    inner_->raw_deallocate(data);
  }

  std::mutex mutex_;
  c10::Allocator* inner_ = nullptr;
  std::unordered_map<void*, std::int64_t> sizes_;
  std::int64_t now_ = 0, peak_ = 0;
  bool counts_ = false;
};

constexpr std::uint8_t priority = 100;  // above whatever else was set

}  // namespace

struct MemoryMeter::State {
  c10::Allocator* before = CountingAllocator::instance().begin();
};

MemoryMeter::MemoryMeter() : state_(std::make_unique<State>()) {
  c10::SetCPUAllocator(&CountingAllocator::instance(), priority);
}
MemoryMeter::~MemoryMeter() {
  c10::SetCPUAllocator(state_->before, priority);
  CountingAllocator::instance().end();
}
std::int64_t MemoryMeter::now() const noexcept { return CountingAllocator::instance().now(); }
std::int64_t MemoryMeter::peak() const noexcept { return CountingAllocator::instance().peak(); }

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
