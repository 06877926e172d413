/// What a training step keeps in memory, by kind, and how the process keeps it.
#pragma once
#include <cstdint>
#include <memory>

namespace clipbert::train {

/// Bytes by kind.
struct MemoryUse {
  std::int64_t weights = 0;       ///< parameters and buffers of the model
  std::int64_t masters = 0;       ///< fp32 copies of low parameters
  std::int64_t gradients = 0;     ///< as they stood after the last backward
  std::int64_t optimizer = 0;     ///< moments
  std::int64_t activations = 0;   ///< kept by the last forward for its backward
  std::int64_t peak_tensors = 0;  ///< most bytes of tensors made during one step, all kinds that a step makes
  std::int64_t peak_rss = 0;      ///< most memory the process held so far

  /// What stays between steps and what one step adds.
  [[nodiscard]] std::int64_t total() const noexcept { return weights + masters + gradients + optimizer + activations; }
};

/// Counts the bytes of CPU tensors that are made while it lives, on any thread, by standing in for LibTorch's
/// allocator. One at a time; no other thread may make tensors while it starts or ends.
class MemoryMeter {
 public:
  MemoryMeter();
  ~MemoryMeter();
  MemoryMeter(const MemoryMeter&) = delete;
  MemoryMeter& operator=(const MemoryMeter&) = delete;

  [[nodiscard]] std::int64_t now() const noexcept;   ///< made since the start and not yet freed
  [[nodiscard]] std::int64_t peak() const noexcept;  ///< the most that `now` was

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The most resident memory of this process so far, in bytes.
[[nodiscard]] std::int64_t peak_rss();

/// Resident memory of this process now, in bytes.
[[nodiscard]] std::int64_t current_rss();

/// Makes the allocator keep freed memory and ask for huge pages for large tensors. Activations of equal size come and
/// go with every step; giving them back to the system costs a page fault for each page of each step. Call it at the
/// start of the program, before any tensor is made. Variables set by the user win.
void keep_freed_memory();

}  // namespace clipbert::train
