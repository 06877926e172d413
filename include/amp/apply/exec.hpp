/// Executors: where and how wide the work of a multi_tensor_apply runs. All give the same bits.
#pragma once
#include <amp/apply/plan.hpp>
#include <amp/apply/thread_pool.hpp>
#include <amp/core/check.hpp>
#include <amp/simd/target.hpp>
#include <concepts>
#include <cstdint>
#include <memory>
#include <thread>

namespace amp::exec {

/// Below this many elements in all, waking other threads costs more than the work.
inline constexpr std::int64_t serial_below = 32768;

/// One float at a time on the calling thread: the reference.
struct scalar {
  std::int64_t chunk = apply::default_chunk;  ///< elements per work item
  bool fused = true;                          ///< false: the scratch path only (same bits)

  [[nodiscard]] static constexpr simd::target isa() noexcept { return simd::target::scalar; }
  void run(std::int64_t items, std::int64_t /*elements*/, apply::task_ref task) const {
    for (std::int64_t i = 0; i < items; ++i) task(i);
  }
};

/// Vectors on the calling thread.
struct vectorized {
  std::int64_t chunk = apply::default_chunk;
  simd::target target = simd::target::best;  ///< chosen once per call
  bool fused = true;

  [[nodiscard]] simd::target isa() const noexcept { return target; }
  void run(std::int64_t items, std::int64_t /*elements*/, apply::task_ref task) const {
    for (std::int64_t i = 0; i < items; ++i) task(i);
  }
};

/// Vectors on a pool of std::threads. Copies share the pool; calls from several threads take turns.
class threads {
 public:
  /// `count` threads, the caller included; 0: as many as the machine has.
  explicit threads(int count = 0, where at = where::here()) {
    expects(
        count >= 0, [&] { return "exec::threads of " + std::to_string(count) + "; use 0 for all cores"; }, at);
    const int all = static_cast<int>(std::thread::hardware_concurrency());
    pool_ = std::make_shared<apply::thread_pool>(count > 0 ? count : (all > 0 ? all : 1));
  }

  std::int64_t chunk = apply::default_chunk;
  simd::target target = simd::target::best;
  bool fused = true;

  [[nodiscard]] int size() const noexcept { return pool_->size(); }
  [[nodiscard]] simd::target isa() const noexcept { return target; }
  void run(std::int64_t items, std::int64_t elements, apply::task_ref task) const {
    if (elements < serial_below || items < 2 || pool_->size() == 1) {
      for (std::int64_t i = 0; i < items; ++i) task(i);
    } else {
      pool_->run(items, task);
    }
  }

 private:
  std::shared_ptr<apply::thread_pool> pool_;
};

/// An executor of this process's memory: it calls `task(i)` once for each i < items, on any threads, and waits.
template <class E>
concept HostExecutor = requires(const E& e, std::int64_t n, apply::task_ref task) {
  { e.chunk } -> std::convertible_to<std::int64_t>;
  { e.fused } -> std::convertible_to<bool>;
  { e.isa() } -> std::same_as<simd::target>;
  e.run(n, n, task);
};

}  // namespace amp::exec
